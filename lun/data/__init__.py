"""Pictures and captions: which example comes next, and how it is read."""
