"""Files of weights: told apart, read without running code, written whole or not at all."""
