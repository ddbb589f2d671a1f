"""The same prompts and seeds by several checkpoints, averages, adapters and scales of guidance, side by side."""
