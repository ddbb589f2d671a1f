"""The page of a run: what it does and did, in one file that is read off its directory alone."""
