"""`--probe`: a few real steps that are measured and leave nothing behind."""
