"""Averages of weights: their laws, where they are kept, and how they enter and leave checkpoints."""
