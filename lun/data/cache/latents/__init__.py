"""The first stage's moments of every picture, computed once and kept on disk."""
