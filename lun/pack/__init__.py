"""`python -m lun.pack`: the pictures of a folder as a packed set."""
