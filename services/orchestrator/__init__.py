"""Conversations between a person and a model (orchestrator.md): prompts in, an answer each, a history of both.

`orchestrator.py` is what callers see. `prompt_turn.py` takes one prompt to its end, `conversation.py` holds what was
said and shown, `windowed_provider.py` gives a stateless provider a memory, `recorder.py` is the port to a log.
"""
