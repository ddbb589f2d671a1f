"""Readers of whole configurations of other programs, and what they share."""
