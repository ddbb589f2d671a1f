"""Entries by name in files that are mapped into memory: what the caches of pictures and of captions are made of."""
