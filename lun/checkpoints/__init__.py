"""Checkpoints as files: whole or absent, beside training, with what says that they are whole."""
