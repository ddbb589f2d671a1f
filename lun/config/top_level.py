"""The sections of a configuration."""

TOP_LEVEL = ("model", "data", "lightning", "seed")
