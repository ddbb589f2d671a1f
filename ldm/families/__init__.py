"""One record a family of models, and which family a set of tensors belongs to."""
