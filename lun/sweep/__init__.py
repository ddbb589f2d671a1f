"""Several runs by one line: a product of values, or a queue of command lines, with a table of what came of them."""
