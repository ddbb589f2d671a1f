"""Files of weights: recognised, read without running code, written whole or not at all."""
