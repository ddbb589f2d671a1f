"""What lies in a data folder: listed, selected, and kept for the next start."""
