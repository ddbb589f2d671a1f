"""`python -m lun.measure`: how good samples are, and how near to the data, by encoders that a person has."""
