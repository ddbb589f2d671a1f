"""Weights by whatever name a person has for them."""
