"""What an adapter and the layer that it is added to know of each other."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ldm.errors import Fault
from ldm.training.adapters import CHILD

WHERE = "model.params.adapter_config"


class Adapter(nn.Module):
    """A small network beside one layer of weight W (out, in) or (out, in, k, k): the layer's output gets `forward(x)`.

    A kind is a class that is built with (layer, generator, **params) and has `delta` and `tensors`. Its parameters are
    fp32 and lie where the layer's weight does, on the meta device too, whose numbers it must not look at. The first
    output is the layer's own to the bit. Base weights stay where they are, under their names.

    alpha    scales the change by alpha / rank; kept with the weights, since they mean nothing without it
    dropout  share of the adapter's inputs that is left out in training
    """

    alpha: Tensor
    active = True
    """Whether it has its effect; see `ldm.adapters.switching`."""
    keeps_float32 = True
    """In a precision whose weights are all in half these stay precise: they take many small steps."""

    def __init__(self, layer: nn.Module, alpha: float, dropout: float) -> None:
        super().__init__()
        if not is_adaptable(layer):
            raise Fault("CFG08", f"{type(layer).__name__} takes no adapter", where=WHERE, fix="nn.Linear, nn.Conv2d")
        if not 0 <= dropout < 1:
            raise Fault("CFG03", f"an adapter's dropout is {dropout}", where=WHERE, fix="0, or less than 1")
        if not 0 < alpha < float("inf"):
            raise Fault("CFG03", f"an adapter's alpha is {alpha}", where=WHERE, fix="more than 0: the rank, or half")
        self.shape: tuple[int, ...] = tuple(layer.weight.shape)  # type: ignore[arg-type]
        self.operation = operation_of(layer)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("alpha", torch.tensor(float(alpha), device="cpu"))

    def delta(self) -> Tensor:
        """What is added to the layer's weight, in its shape, fp32."""
        raise NotImplementedError

    def tensors(self) -> dict[str, Tensor]:
        """Under the names that they have in kohya's files, after the layer's."""
        raise NotImplementedError

    def merged(self, weight: Tensor) -> Tensor:
        """The weight with which the layer alone computes what both compute together: fp32, in its shape."""
        return weight.float() + self.delta()

    def forward(self, x: Tensor) -> Tensor:
        return self.operation(self.dropout(x), self.delta())

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Raises `Fault` RES05 for weights of another rank or alpha: they would be others than those that trained."""
        own = {**dict(self.named_parameters()), "alpha": self.alpha}
        for name, tensor in own.items():
            stored = state_dict.get(prefix + name)
            if stored is None:
                continue
            same = stored.shape == tensor.shape and (name != "alpha" or float(stored) == float(tensor))
            if not same:
                found = [float(stored), float(tensor)] if name == "alpha" else [list(stored.shape), list(tensor.shape)]
                why = f"{prefix}{name} is {found[0]} in the checkpoint and {found[1]} by the config"
                raise Fault("RES05", "the adapter was trained with other settings", where=WHERE, why=why, fix=KEEP)
        super()._load_from_state_dict(state_dict, prefix, *rest)


KEEP = "the kind, rank and alpha that it was trained with, or a new run that starts from its merged weights"


def operation_of(layer: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """How a layer applies a weight of its shape to its input, without its bias."""
    if isinstance(layer, nn.Linear):
        return F.linear
    how = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation}
    return lambda x, weight: F.conv2d(x, weight, **how)


def is_adaptable(layer: nn.Module) -> bool:
    """Whether a layer is a matrix or a plain convolution of two dimensions."""
    plain = isinstance(layer, nn.Conv2d) and layer.groups == 1 and layer.padding_mode == "zeros"
    return plain or isinstance(layer, nn.Linear)


def attach(layer: nn.Module, adapter: Adapter) -> None:
    """Make `adapter` a child of `layer`, which from now on gives the sum of both."""
    setattr(layer, CHILD, adapter)
    if hasattr(adapter, "scaled"):
        layer.register_forward_pre_hook(_scale)
    layer.register_forward_hook(_add)


def adapters_in(layers: Mapping[str, nn.Module]) -> Iterator[tuple[str, Adapter]]:
    """The adapters of layers, under the names of these."""
    for name, layer in layers.items():
        adapter = getattr(layer, CHILD, None)
        if isinstance(adapter, Adapter):
            yield name, adapter


def new_parameter(layer: nn.Module, *shape: int) -> nn.Parameter:
    """Zeros in fp32 beside a layer's weight."""
    return nn.Parameter(torch.zeros(shape, dtype=torch.float32, device=layer.weight.device))  # type: ignore[arg-type]


def draw(parameter: nn.Parameter, generator: torch.Generator, bound: float, normal: bool = False) -> None:
    """Fill a parameter with numbers drawn on the CPU: uniform within +-bound, or normal of that deviation."""
    if not parameter.is_meta:
        drawn = torch.empty(parameter.shape, device="cpu")
        drawn.normal_(0, bound, generator=generator) if normal else drawn.uniform_(-bound, bound, generator=generator)
        parameter.data.copy_(drawn)


def _add(layer: Any, given: tuple[Tensor, ...], out: Tensor) -> Tensor:
    return out + _in_its_precision(layer.adapter, given[0]).to(out.dtype) if layer.adapter.active else out


def _in_its_precision(adapter: Any, x: Tensor) -> Tensor:
    """Autocast chooses by itself; without it fp32 adapters meet inputs in half."""
    found: Tensor = adapter(x if torch.is_autocast_enabled(x.device.type) else x.float())
    return found


def _scale(layer: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (layer.adapter.scaled(given[0], layer.weight), *given[1:]) if layer.adapter.active else given
