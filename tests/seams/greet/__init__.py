"""A command of somebody's own."""
