"""Which Stable Diffusion a set of tensors is, and what that says about its networks."""
