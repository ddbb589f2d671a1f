"""Numbers that tell more of a run than its loss does."""
