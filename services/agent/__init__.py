"""An agent: instructions, tools and a history that it continues (history-restore.md, "The agent")."""
