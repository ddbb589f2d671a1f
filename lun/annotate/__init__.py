"""Captions, tags, scores and masks for pictures, by weights that the person has: `python -m lun.annotate`."""
