"""Bases in few bits: matrices that are frozen below adapters are kept as codes, and multiplied with what these mean."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ldm.errors import Fault
from ldm.training.adapters import CHILD, is_of_adapter
from ldm.training.groups import Decision, named_weights
from ldm.util import Recipe, instantiate_from_config

WHERE = "model.params.base_config"


class Quantisation:
    """A way to keep a frozen matrix (out, in) in few bits: a class with these three is a kind.

    The codes are int8 of any shape, the scales fp32; `name` is what the plan calls it.
    """

    name = ""

    def encode(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Codes and scales of a matrix (out, in) in fp32."""
        raise NotImplementedError

    def decode(self, codes: Tensor, scales: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """The matrix (out, in) that they stand for."""
        raise NotImplementedError

    def size(self, shape: torch.Size) -> int:
        """Bytes of codes and scales of a matrix of that shape."""
        raise NotImplementedError


class QuantisedLinear(nn.Linear):
    """A linear layer whose `weight` holds codes: neither pass keeps the matrix that they stand for.

    Scales are no part of the state, which files hold unquantised.
    """

    keeps_float32 = True
    """Codes are no numbers that a precision could round."""
    scales: Tensor
    quantised_as: Quantisation

    @classmethod
    def take_over(cls, layer: nn.Linear, kind: Quantisation) -> None:
        """Make `layer` one of this class: its place, hooks, adapter and names stay."""
        codes, scales = kind.encode(layer.weight.detach().float())
        layer.weight = nn.Parameter(codes, requires_grad=False)
        layer.register_buffer("scales", scales, persistent=False)
        layer.__class__ = cls  # as FSDP2 does, since a new module would lose what hangs on the old one

    def matrix(self, dtype: torch.dtype) -> Tensor:
        """What the codes stand for: (out, in)."""
        shape = torch.Size((self.out_features, self.in_features))
        return self.quantised_as.decode(self.weight, self.scales, shape, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """(..., in) to (..., out), in the dtype in which autocast, or without it the input, has it."""
        device = input.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else input.dtype
        out: Tensor = _Product.apply(input.to(dtype), self)
        return out


class _Product(torch.autograd.Function):
    """x W^T + b, of which x alone gets a gradient; the backward pass decodes W again, which autograd would keep."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: QuantisedLinear) -> Tensor:
        ctx.layer = layer
        bias = None if layer.bias is None else layer.bias.to(x.dtype)
        return F.linear(x, layer.matrix(x.dtype), bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return gradient @ ctx.layer.matrix(gradient.dtype), None


def quantisation_of(recipe: Recipe | None, adapted: bool) -> Quantisation | None:
    """What `base_config` describes. Raises `Fault` CFG08 for what is none, and where no adapters are to train."""
    if recipe is None:
        return None
    if not adapted:
        what, why = "base_config quantises what trains", "weights of few bits cannot take small steps"
        raise Fault("CFG08", what, where=WHERE, why=why, fix="adapters, such as the layer lora, or base_config=null")
    kind = instantiate_from_config(recipe)
    if not isinstance(kind, Quantisation):
        what = f"{recipe['target']} is no way to quantise a base"
        raise Fault("CFG08", what, where=WHERE, fix="ldm.adapters.Nf4, or ldm.adapters.Int8")
    return kind


def mark(networks: Mapping[str, nn.Module], kind: Quantisation, decision: Decision) -> None:
    """Note at each layer that `kind` will quantise that it will: the matrices in blocks of networks with adapters.

    All else stays as it is: norms, convolutions, embeddings, and what comes before and after the blocks.
    Raises `Fault` CFG08 where there are none, where something of such a network trains besides adapters, and for kinds
    of adapters that look at the weight.
    """
    marked = False
    for word, network in networks.items():
        names = list(named_weights({word: network}))
        if not any(map(is_of_adapter, names)):
            continue
        if trained := [name for name in names if decision.settings[name]["train"] and not is_of_adapter(name)]:
            why = f"{len(trained)} parameters of its {word} train and checkpoints would hold it, first {trained[0]}"
            fix = "rules by which only adapters train, or base_config=null"
            raise Fault("CFG08", "a quantised base has to be frozen", where=WHERE, why=why, fix=fix)
        for name, layer in _matrices_in_blocks(network):
            _require_blind(f"{word}.{name}", layer)
            vars(layer)["quantised_as"] = kind
            marked = True
    if not marked:
        why = "no network with adapters has a linear layer within blocks"
        raise Fault("CFG08", "base_config quantises nothing", where=WHERE, why=why, fix="base_config=null")


def marked_in(network: nn.Module) -> list[tuple[nn.Linear, Quantisation]]:
    """The layers of a network that will be quantised, or are, and how."""
    layers = (layer for layer in network.modules() if isinstance(layer, nn.Linear))
    return [(layer, vars(layer)["quantised_as"]) for layer in layers if "quantised_as" in vars(layer)]


def quantise(network: nn.Module) -> None:
    """Quantise the layers that are marked, for good."""
    for layer, kind in marked_in(network):
        QuantisedLinear.take_over(layer, kind)


def _matrices_in_blocks(network: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """By the lists that networks keep their blocks in: embeddings of time and the last projection are in none."""
    modules = dict(network.named_modules())
    blocks = tuple(f"{name}." for name, module in modules.items() if isinstance(module, nn.ModuleList))
    for name, module in modules.items():
        if type(module) is nn.Linear and name.startswith(blocks) and not is_of_adapter(name):
            yield name, module


def _require_blind(name: str, layer: nn.Linear) -> None:
    """Raise `Fault` CFG08 for an adapter that computes with its layer's weight."""
    adapter = getattr(layer, CHILD, None)
    if hasattr(adapter, "scaled") or "forward" in vars(layer):
        kind = type(adapter).__name__ if adapter is not None else "what is placed there"
        why = f"{kind} at {name} computes with the layer's weight, which would be another one than the file's"
        fix = "a kind that adds to outputs (LoRA, LoHa, LoKr, PiSSA), or base_config=null"
        raise Fault("CFG08", f"{kind} needs an unquantised base", where=WHERE, why=why, fix=fix)
