"""`--new`: the first configuration of one's own, from five answers and a look at the pictures."""
