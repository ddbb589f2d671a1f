"""Which data set the command line means: a folder alone, or the recipe of a config with that folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ldm.errors import Fault
from lun.config.compat.upgrade import upgrade
from lun.config.reading.load_layers import load_layers
from lun.config.recipes import RecipeCheck
from lun.config.slots import DATASET

if TYPE_CHECKING:
    from lun.inspect.view import DatasetView

LOCAL = "lun.data.local.Local"
CLIP_LENGTH = 77


@dataclass(frozen=True)
class Given:
    """The recipe of the data set to look at, the seed of its draws, and how its captions become tokens."""

    folder: str | None
    recipe: Mapping[str, Any]
    seed: int = 0
    text_encoder: Mapping[str, Any] | None = None
    buckets: Mapping[str, Any] | None = None

    split: str = "train"

    @property
    def name(self) -> str:
        """What a person calls the data set: its folder, else its class."""
        return self.folder or str(self.recipe["target"]).rpartition(".")[2]

    def build(self) -> DatasetView:
        """The data set; whatever `Fault` training would meet."""
        from lun.data.building import build_dataset
        from lun.inspect.view import DatasetView

        return DatasetView(build_dataset(self.recipe, self.split))

    def without_captions(self) -> Given:
        """The same, where pictures need no captions: these can be looked at although training refuses them."""
        params = {**(self.recipe.get("params") or {}), "allow_empty_captions": True}
        return replace(self, recipe={**self.recipe, "params": params})

    def token_counter(self) -> Callable[[str], int] | None:
        """Tokens of a caption, both ends included, by CLIP's vocabulary; None for an encoder that reads words."""
        if ".words." in str((self.text_encoder or {}).get("target", "")):
            return None
        from ldm.modules.encoders.tokenizer import BUILT_IN, clip_tokenizer

        try:
            tokenizer = clip_tokenizer(self._encoder_params.get("tokenizer") or BUILT_IN, 1 << 20)
        except Fault:
            return None
        return lambda caption: len(tokenizer(caption, verbose=False).input_ids)

    @property
    def most_tokens(self) -> int:
        """How many tokens the text encoder reads of a caption, both ends included."""
        length = int(self._encoder_params.get("max_length") or CLIP_LENGTH)
        return length if length <= CLIP_LENGTH else length + 2

    @property
    def _encoder_params(self) -> Mapping[str, Any]:
        return (self.text_encoder or {}).get("params") or {}


def read_given(folder: str | None, files: Sequence[str], settings: Sequence[str], split: str) -> Given:
    """The recipe for `split` of the configs, reading `folder` where one is named. Raises its faults, all at once."""
    if folder is None and not files:
        raise Fault("CLI03", "there is nothing to look at", fix="python -m lun.inspect DIR, or --base YAML")
    if not files and not settings:
        return Given(folder, {"target": LOCAL, "params": {"data_root": folder}})
    merged, _, faults = upgrade(load_layers(files, settings))
    config = merged.config
    path = ("data", "params", split)
    recipe: Any = config
    for key in path:
        recipe = (recipe.get(key) if isinstance(recipe, Mapping) else None) or {}
    if not recipe:
        if files:
            raise Fault("CFG03", f"the configuration has no {'.'.join(path)}", where=" ".join(files))
        recipe = {}
    recipe = {"target": LOCAL, **recipe}
    if folder is not None:
        _require_folder_setting(recipe["target"], merged.where((*path, "target")))
        recipe = {**recipe, "params": {**(recipe.get("params") or {}), "data_root": folder}}
    check = RecipeCheck(merged)
    check.check(recipe, path, DATASET)
    if faults + check.faults:
        raise ExceptionGroup("faults in the configuration", faults + check.faults)
    encoder = ((config.get("model") or {}).get("params") or {}).get("cond_stage_config")
    recipe = {"target": recipe["target"], "params": recipe.get("params") or {}}
    buckets = ((config.get("data") or {}).get("params") or {}).get("buckets")
    return Given(
        folder, recipe, config.get("seed") or 0, encoder if isinstance(encoder, Mapping) else None, buckets, split
    )


def _require_folder_setting(target: str, where: str) -> None:
    """Raise `Fault` CFG08 for a class that takes no `data_root`, CFG04 for one that may not be named."""
    from lun.config.signature import accepted_by
    from lun.config.targets import find_target

    accepted = accepted_by(find_target(target))
    if "data_root" not in accepted.parameters and not accepted.anything:
        raise Fault(
            "CFG08",
            f"{target} takes no data_root, so that DIR has no effect",
            where=where,
            fix="python -m lun.inspect --base YAML    (without DIR)",
        )
