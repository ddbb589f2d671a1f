"""The difference between two models as LoRAs of their layers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ldm.adapters.approximation import Approximation, approximate, total_error
from ldm.adapters.decomposition import RankRule
from ldm.adapters.layer import is_adaptable
from ldm.diffusion.draws import key
from ldm.errors import Fault
from ldm.training.groups import named_layers, named_weights


@dataclass(frozen=True)
class Extraction:
    """What of a difference went into LoRAs, by layer, and what did not.

    left_out  {parameter: |its change|}: norms, biases, embeddings, and layers that were not asked for
    """

    layers: Mapping[str, Approximation]
    left_out: Mapping[str, float]

    @property
    def error(self) -> float:
        """|left out| / |change|, of the layers that were extracted."""
        return total_error(self.layers.values())

    @property
    def whole_error(self) -> float:
        """The same of everything that differs."""
        others = [Approximation({}, 1.0, size) for size in self.left_out.values()]
        return total_error([*self.layers.values(), *others])


def extract(
    tuned: Mapping[str, nn.Module],
    base: Mapping[str, nn.Module],
    rule: RankRule,
    chosen: Callable[[str], bool] = lambda name: True,
    dtype: torch.dtype | None = None,
    seed: int = 0,
) -> Extraction:
    """LoRAs of all layers whose weights differ, the same each time for a seed.

    chosen  which layers, by their names in rules
    dtype   of the LoRAs; fp32 without one

    Raises `Fault` MOD03 for networks of different kinds or sizes, and where no chosen layer differs.
    """
    _require_alike(tuned, base)
    below: dict[str, Any] = named_layers(base)
    layers: dict[str, Approximation] = {}
    for name, layer in _adaptable(tuned):
        difference = layer.weight.detach().float() - below[name].weight.detach().float()
        if chosen(name) and bool(difference.any()):
            own_seed = key(seed, f"extract/{name}")
            layers[name] = approximate(difference.flatten(1), layer.weight.shape, rule, dtype, own_seed)
    if not layers:
        raise Fault("MOD03", "no weight of the layers that were asked for differs from the base's")
    extracted = {f"{name}.weight" for name in layers}
    others = {name: weight for name, weight in named_weights(tuned).items() if name not in extracted}
    old = named_weights(base)
    sizes = {name: _distance(weight, old[name]) for name, weight in others.items()}
    return Extraction(layers, {name: size for name, size in sizes.items() if size})


def _adaptable(networks: Mapping[str, nn.Module]) -> Iterator[tuple[str, Any]]:
    return ((name, layer) for name, layer in named_layers(networks).items() if is_adaptable(layer))


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one.detach().float() - other.detach().float()).norm())


def _require_alike(tuned: Mapping[str, nn.Module], base: Mapping[str, nn.Module]) -> None:
    own, other = ({name: list(weight.shape) for name, weight in named_weights(n).items()} for n in (tuned, base))
    differing = sorted(name for name in own.keys() | other.keys() if own.get(name) != other.get(name))
    if differing:
        name = differing[0]
        why = f"{len(differing)} weights, first {name}: {own.get(name, 'absent')} and {other.get(name, 'absent')}"
        fix = "the model that it was tuned from"
        raise Fault("MOD03", "the two models are of different kinds or sizes", why=why, fix=fix)
