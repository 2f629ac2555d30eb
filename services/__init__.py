"""What runs: the HTTP API, the projector, the eraser, the command line, and the composition root."""
