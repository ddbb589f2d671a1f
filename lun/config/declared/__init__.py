"""What a class or function takes, read from its source: nothing is imported, so that an answer comes at once."""
