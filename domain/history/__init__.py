"""What an agent continues from: its messages, what replays of them, and what a provider accepts.

`messages.py` names the types, `restoring.py` judges a saved history, `derived.py` reads transcript entries as messages,
`provider_valid.py` makes any list of messages acceptable, `window.py` cuts it at turn boundaries.
"""
