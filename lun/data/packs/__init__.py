"""Packed sets: many pictures in few tar files, an index of our own beside them, on any storage."""
