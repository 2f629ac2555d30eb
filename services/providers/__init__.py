"""Where answers come from: one protocol, and the providers that come along."""
