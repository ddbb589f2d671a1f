"""The training loop as the program sees it: positions, step boundaries, ranks, and Lightning's insides."""
