"""The type that travels between files and networks: named tensors."""

from torch import Tensor

State = dict[str, Tensor]
"""{key: tensor}; the keys are a module's own, or those that a file uses."""
