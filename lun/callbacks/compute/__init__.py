"""How the network computes: compiled, streamed, offloaded, stepped within the backward pass."""
