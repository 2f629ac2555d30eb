"""The HTTP API: guards, routes, live streams, and the server that runs them."""
