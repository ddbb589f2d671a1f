"""diffusers' networks without memory: their settings, names and shapes, and whether tensors are theirs."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ldm.errors import Fault
from ldm.files.load import compare, fitted
from ldm.files.state import State


def on_meta(kind: Any, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """All settings of a library's network, defaults too, and its names and shapes, without memory for its weights.

    Raises `Fault` MOD03 if no such network can be built.
    """
    try:
        with torch.device("meta"):
            network: Any = kind.from_config(config)
    except ValueError as error:
        raise Fault(
            "MOD03",
            f"these weights are of no {kind.__name__} that their shapes alone describe",
            why=str(error),
            fix="convert the run or its checkpoint, whose config says how the network was built",
        ) from error
    return {key: value for key, value in network.config.items() if not key.startswith("_")}, network.state_dict()


def require_same(state: State, keys: Mapping[str, Tensor], source: str, what: str) -> State:
    """`state` with 1x1 convolutions as matrices where the network has those, or the other way round.

    Raises `Fault` MOD03 if it does not hold exactly the tensors of `keys`; `source` and `what` name it.
    """
    state = {key: fitted(value, keys.get(key)) for key, value in state.items()}
    if not (comparison := compare(state, keys)).fits:
        why = comparison.render()
        raise Fault("MOD03", f"the {what} in {source} is not whole, or not the one that was described", why=why)
    return state
