"""Numbers that show more of a run than its loss does."""
