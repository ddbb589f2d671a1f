"""DeepSpeed's ZeRO: pieces of weights, checkpoints, half precision, and what it cannot do."""
