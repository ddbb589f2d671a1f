"""Names of tensors: what each spelling of a network calls them, and the way from one to the other."""
