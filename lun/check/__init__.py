"""`--check`: what is wrong with settings, whatever pictures, weights and devices there are."""
