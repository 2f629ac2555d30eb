"""turnlog: an async, event-sourced conversation backend."""

__version__ = "0.1.0"

__all__ = ["__version__"]
