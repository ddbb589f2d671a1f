"""The order of examples: a law from positions to examples, with and without buckets."""
