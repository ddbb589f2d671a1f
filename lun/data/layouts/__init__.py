"""The ways in which people lay out pictures and their descriptions, each read into one table."""
