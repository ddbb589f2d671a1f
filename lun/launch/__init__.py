"""Starting a run: the command line, the run directory, the Trainer, and what is said about them."""
