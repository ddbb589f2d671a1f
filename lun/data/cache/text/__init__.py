"""What a frozen text encoder makes of captions, computed once and kept on disk."""
