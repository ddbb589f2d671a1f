"""How often torch compiled something."""

from torch._dynamo.utils import counters


def graphs_compiled() -> int:
    """How many graphs `torch.compile` has made in this process, those that it forgot included."""
    return int(counters["stats"]["unique_graphs"])
