"""What a data set is, what was left out of it and why, and what the model will see."""
