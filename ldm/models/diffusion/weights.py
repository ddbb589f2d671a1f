"""Which weights a model starts from: each part's own, a whole checkpoint's, or none because that was asked for."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ldm.checkpoint.load import load_part
from ldm.checkpoint.parts import below
from ldm.checkpoint.read import missing, read_state_dict
from ldm.checkpoint.sniff import sniff
from ldm.errors import Fault
from ldm.util import Recipe, instantiate_from_config

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """One network of a model: the setting that describes it, its recipe, its prefix in a CompVis checkpoint."""

    setting: str
    recipe: Recipe
    prefix: str
    trained: bool

    def build(self) -> nn.Module:
        return instantiate_from_config(self.recipe)

    @property
    def own_path(self) -> str | None:
        """The file or folder that the recipe itself names."""
        return (self.recipe.get("params") or {}).get("ckpt_path")

    def weights_named(self) -> bool:
        """Whether the recipe says where this part's weights come from, or that it shall have none."""
        params = self.recipe.get("params") or {}
        return any(params.get(name) for name in ("ckpt_path", "version", "from_scratch"))


def without_loss(recipe: Recipe) -> Recipe:
    """An autoencoder's recipe for use as a part, which has nothing to train it by."""
    params = {name: value for name, value in (recipe.get("params") or {}).items() if name != "lossconfig"}
    return {**recipe, "params": params}


def require_weights(parts: Mapping[str, Part], ckpt_path: str | None) -> None:
    """Raise `Fault` before anything is built: MOD06 for parts that would start from noise without having been asked to,
    MOD01 or MOD02 for files that are not there or not weights."""
    unnamed = [name for name, part in parts.items() if not part.weights_named()]
    if unnamed and not ckpt_path:
        raise _nameless(unnamed, parts)
    for path in [ckpt_path, *(part.own_path for part in parts.values())]:
        if path and not Path(path).is_dir():
            if not Path(path).is_file():
                raise missing(Path(path))
            sniff(Path(path))


def give_weights(
    parts: Mapping[str, Part], networks: Mapping[str, nn.Module], ckpt_path: str | None, ignore: tuple[str, ...]
) -> None:
    """Fill the parts that have no weights of their own from the checkpoint at `ckpt_path`.

    A part's own path wins over the checkpoint, since it was written down for that part. Raises `Fault` MOD01 to MOD05
    for a file that cannot be used and MOD06 for parts that neither got weights nor say `from_scratch: true`.
    """
    waiting = [name for name, network in networks.items() if network.loaded_from is None]
    if ckpt_path:
        state = read_state_dict(ckpt_path)
        for name in list(waiting):
            own = below(state, parts[name].prefix)
            if own:
                report = load_part(networks[name], own, source=ckpt_path, ignore=ignore)
                waiting.remove(name)
                log.info("weights  %s from %s (%d tensors)", name, ckpt_path, report.loaded)
    nameless = [name for name in waiting if not networks[name].from_scratch]
    if nameless:
        raise _nameless(nameless, parts)


def _nameless(names: list[str], parts: Mapping[str, Part]) -> Fault:
    return Fault(
        "MOD06",
        f"the {' and the '.join(names)} got no weights; training would start from noise",
        where=", ".join(parts[name].setting for name in names),
        fix="--init-from FILE, or ckpt_path in the part's params, or on purpose: "
        + " ".join(f"{parts[name].setting}.params.from_scratch=true" for name in names),
    )


def count_parameters(part: Part) -> int:
    """Parameters of a part, counted on the meta device: nothing is read and no memory taken."""
    params = {**(part.recipe.get("params") or {}), "from_scratch": True}
    params.pop("ckpt_path", None)
    with torch.device("meta"):
        network: nn.Module = instantiate_from_config({"target": part.recipe["target"], "params": params})
    return sum(p.numel() for p in network.parameters())
