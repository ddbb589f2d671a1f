"""One network of a model: how it is described, where it lies in a checkpoint, and what of it comes from elsewhere."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ldm.admission import PROJECT, admitted
from ldm.errors import Fault
from ldm.files.state import State
from ldm.keys.split_checkpoint import COND_STAGE, FIRST_STAGE, UNET, Parts
from ldm.modules.encoders.encoder_files import Places, given_paths, require_all, with_own_files
from ldm.modules.meta_init import meta_init
from ldm.modules.outline import from_outline, outline_of
from ldm.remembered import remembered
from ldm.util import Recipe, instantiate_from_config


@dataclass(frozen=True)
class Part:
    """One network of a model: the setting that describes it, its recipe, its prefix in a CompVis checkpoint.

    trainable  the first word of its parameters' names in rules for what trains; None for a part that never does
    """

    setting: str
    recipe: Recipe
    prefix: str
    trainable: str | None

    def build(self) -> nn.Module:
        network: nn.Module = instantiate_from_config(self.recipe)
        return network

    def build_on_meta(self) -> nn.Module:
        """The same network without memory for its parameters: nothing is read, no weights are drawn."""
        with meta_init():
            return self.build()

    def by_shape(self) -> nn.Module:
        """The names, shapes and settings of the network (`ldm.modules.outline`), remembered from an earlier start.

        It imports no library. A network of one's own is built, on the meta device.
        """
        if not str(self.recipe["target"]).startswith(f"{PROJECT[0]}."):
            return self.build_on_meta()
        return from_outline(remembered("network", self.recipe, lambda: outline_of(self.build_on_meta())))

    def called(self, name: str) -> str:
        """What messages call this part, `name` among its model's: the denoising network by its class, `UNet`."""
        kind: Any = admitted(self.recipe["target"])
        made = kind if isinstance(kind, type) else inspect.signature(kind).return_annotation
        return getattr(made, "__name__", name) if self.prefix == UNET else name

    @property
    def params(self) -> Mapping[str, Any]:
        """What the recipe says besides its target."""
        return self.recipe.get("params") or {}

    @property
    def own_path(self) -> str | None:
        """The file or folder that the recipe itself names for the whole part."""
        path = self.params.get("ckpt_path")
        return path if isinstance(path, str) else None

    @property
    def own_encoders(self) -> dict[str, str]:
        """{encoder: file or folder} of those of several text encoders that the recipe names a file of their own for."""
        return given_paths(self.params.get("ckpt_path"), self._places) if self._places else {}

    @property
    def _places(self) -> Places:
        return getattr(admitted(self.recipe["target"]), "encoder_places", {})

    def weights_named(self) -> bool:
        """Whether the recipe says where this part's weights come from, or that it shall have none."""
        return any(self.params.get(name) for name in ("ckpt_path", "version", "from_scratch"))

    @property
    def hub_id(self) -> str | None:
        """The model that a text encoder's `version` names on the hub, where its weights have to come from there."""
        version = self.params.get("version")
        own = self.params.get("ckpt_path") or self.params.get("from_scratch") or not version or Path(version).exists()
        return None if own else str(version)

    def among(self, parts: Parts) -> State:
        """This part's tensors in a checkpoint, without prefix; text encoders with a file of their own come from it."""
        known = {UNET: parts.unet, FIRST_STAGE: parts.first_stage, COND_STAGE: parts.cond_stage}
        return with_own_files(known.get(self.prefix, {}), self.own_encoders, self._places)

    def require_encoders(self, parts: Parts, given: str) -> None:
        """Look at text encoders that come in files of their own, where the recipe leaves room for that.

        Raises `Fault` MOD06 for one that neither such a file nor the checkpoint `given`, of these `parts`, holds, and
        MOD03 for a file of another network.
        """
        if not self._places or self.own_path:
            return
        if own := self.own_encoders:
            network = self.build_on_meta()
            for name, path in own.items():
                self._places[name].require_fit(network, path)
        state = self.among(parts)
        if state:
            wanted = [name for name in self._places if self.params.get(name, {}) is not None]
            require_all(state, wanted, self._places, given)


def require_named(parts: Mapping[str, Part], ckpt_path: str | None) -> list[str]:
    """Which parts take their weights from `ckpt_path` alone. Raises `Fault` MOD06 for these where there is none."""
    unnamed = [name for name, part in parts.items() if not part.weights_named()]
    if unnamed and not ckpt_path:
        raise nameless_parts(unnamed, parts)
    return unnamed


def nameless_parts(names: Sequence[str], parts: Mapping[str, Part], why: str = "") -> Fault:
    """MOD06 for parts that got no weights."""
    called = " and the ".join(parts[name].called(name) for name in names)
    return Fault(
        "MOD06",
        f"the {called} got no weights; training would start from noise",
        where=", ".join(parts[name].setting for name in names),
        why=why,
        fix="model.params.ckpt_path=FILE, or ckpt_path in the part's params, or on purpose: "
        + " ".join(f"{parts[name].setting}.params.from_scratch=true" for name in names),
    )
