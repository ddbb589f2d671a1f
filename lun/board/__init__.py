"""`python -m lun.board`: the pages of all runs below a directory, served live to the browser of this machine."""
