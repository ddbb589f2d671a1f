"""Several sets in one training run: what a config says of each, and how they are read as one."""
