"""Files of adapters put into the weights of a model that does not train, each at a strength of its own."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ldm.adapters.adapter_files import from_file, is_adapter_file
from ldm.adapters.adapter_names import names_in_files
from ldm.adapters.arithmetic import patched
from ldm.adapters.file_places import FilePlace
from ldm.errors import Fault
from ldm.families.registry import family_of
from ldm.files.read import read_content
from ldm.models.diffusion.adapter_weights import base_state
from ldm.training.groups import named_layers

log = logging.getLogger(__name__)
WHERE = "--adapter"


@dataclass(frozen=True)
class AppliedAdapter:
    """A file of adapters and how much of it is taken: 1 is all, below 0 leads away from it."""

    path: Path
    strength: float = 1.0

    @classmethod
    def parse(cls, given: str) -> "AppliedAdapter":
        """Of `FILE` or `FILE:STRENGTH`. Raises `Fault` CLI03 for a strength that is no number."""
        file, colon, strength = given.rpartition(":")
        if not colon or Path(given).exists():
            return cls(Path(given))
        number = number_in(strength)
        if number is None:
            what = f"{strength!r} is no strength of an adapter"
            raise Fault("CLI03", what, where=WHERE, fix=f"{WHERE} {file}:0.8")
        return cls(Path(file), number)

    def __str__(self) -> str:
        return f"{self.path.name}:{self.strength:g}"


def number_in(text: str) -> float | None:
    """A finite number; None for any other text."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def apply_adapters(
    networks: Mapping[str, nn.Module], adapters: Sequence[AppliedAdapter], dtype: torch.dtype | None = None
) -> None:
    """Add them to the weights of a model's networks, one after the other, as ComfyUI does.

    dtype  of the weights that are changed; None keeps theirs

    Raises `Fault` MOD01, MOD02 or MOD05 for files that cannot be read, MOD03 for one that holds no adapters, or those
    of another family or size.
    """
    layers: dict[str, Any] = named_layers(networks)
    for adapter in adapters:
        state = read_content(adapter.path).state
        source = str(adapter.path)
        if not is_adapter_file(state):
            raise Fault(
                "MOD03", f"{source} is no file of adapters", where=WHERE, fix="one with kohya's or diffusers' names"
            )
        tensors = from_file(state, _names(networks), source)
        for name, own in tensors.items():
            weight = layers[name].weight
            try:
                weight.data = patched(weight, own, adapter.strength).to(dtype or weight.dtype)
            except RuntimeError as error:
                why = f"{name} is {list(weight.shape)}; {str(error).splitlines()[0]}"
                raise Fault("MOD03", f"{source} is of a model of other sizes", where=WHERE, why=why) from error
        log.info("adapter  %s, layers %d", adapter, len(tensors))


def _names(networks: Mapping[str, nn.Module]) -> dict[str, dict[str, FilePlace]]:
    """What files call the networks' layers. Raises `Fault` MOD03 for a family that no program reads adapters for."""
    if "unet" not in networks:
        raise Fault("MOD03", "the model has no UNet, by which its family is known", where=WHERE)
    family = family_of(base_state(networks["unet"]), "the model")
    if family.adapters is None:
        raise Fault("MOD03", f"no files of adapters are known for {family.title}", where=WHERE)
    return names_in_files(networks, family.adapters)
