"""Adapters of one model by layer, from whatever source, on their way into a file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from ldm.adapters.adapter_files import Layers, Layout, to_file
from ldm.adapters.adapter_metadata import adapter_metadata
from ldm.adapters.adapter_names import diffusers_names, kohya_names
from ldm.diffusion.prediction_names import PredictionType
from ldm.errors import Fault
from ldm.families.record import Family
from ldm.files.state import State
from ldm.files.write import write_safetensors
from ldm.training.rules import matching


@dataclass(frozen=True)
class AdapterSet:
    """Adapters by layer, and the networks that they belong to, which may be without memory.

    networks    by the first word of their layers' names in rules
    network     tensors of the denoising one under the names of files
    prediction  what the model predicts; None where that is not known
    """

    layers: Layers
    networks: Mapping[str, nn.Module]
    family: Family
    network: State
    prediction: PredictionType | None = None

    def among(self, *globs: str) -> "AdapterSet":
        """Those of the layers that a glob matches; of all without one. Raises `Fault` CLI05 for one without effect."""
        if not globs:
            return self
        require_matches(globs, self.layers)
        chosen = matching(*globs)
        return replace(self, layers={name: tensors for name, tensors in self.layers.items() if chosen(name)})

    def write(self, out: Path, layout: Layout, dtype: torch.dtype | None, metadata: Mapping[str, str]) -> None:
        """Into a .safetensors file; `metadata` is what else it says of itself. Raises as `to_file` and writing do."""
        if self.family.adapters is None:
            raise Fault("MOD03", f"no files of adapters are known for {self.family.title}")
        names = (kohya_names if layout == "kohya" else diffusers_names)(self.networks, self.family.adapters)
        state = to_file(self.layers, names, layout, dtype)
        if bad := next((key for key, value in state.items() if not bool(value.isfinite().all())), None):
            raise Fault("MOD02", "the adapter holds NaN or infinite numbers", where=bad, why="training diverged")
        own = adapter_metadata(self.layers, self.family, self.network, self.prediction, metadata)
        write_safetensors(out, state, own)


def require_matches(globs: tuple[str, ...], names: Mapping[str, object]) -> None:
    """Raise `Fault` CLI05 for a glob over names of layers that matches none."""
    for glob in globs:
        if not any(map(matching(glob), names)):
            shown = sorted(names)
            why = f"layers have names such as {', '.join(dict.fromkeys([*shown[:1], *shown[-1:]]))}"
            raise Fault("CLI05", f"{glob} matches no layer with an adapter", where="layers", why=why)
