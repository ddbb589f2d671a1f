"""Pictures for people: samples so far, grids, the strip over time, prompts and their options."""
