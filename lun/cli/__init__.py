"""Command lines: flags, arguments, usage, and where each command begins."""
