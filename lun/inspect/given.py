"""Which data set the command line means: a folder alone, or the recipe of a config with that folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ldm.errors import Fault
from ldm.shell import quoted
from lun.config.compat.upgrade import upgrade
from lun.config.data_recipes import LOCAL, inside, require_folder_setting, require_recipe
from lun.config.reading.load_layers import Merged, load_layers
from lun.config.several_sets import names_sets

if TYPE_CHECKING:
    from lun.inspect.view import DatasetView

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
    set_name: str | None = None
    """of one of several sets"""

    @property
    def name(self) -> str:
        """What a person calls the data set: the name of its set, its folder, else its class."""
        return self.set_name or self.folder or str(self.recipe["target"]).rpartition(".")[2]

    @property
    def place(self) -> str:
        """The setting below `data.params` that holds it."""
        return f"{self.split}.sets.{self.set_name}" if self.set_name else self.split

    def build(self) -> DatasetView:
        """The data set; whatever `Fault` training would meet."""
        from lun.data.building import build_dataset
        from lun.inspect.view import DatasetView

        return DatasetView(build_dataset(self.recipe, self.place))

    def sets(self) -> list[Given]:
        """One for each of several sets, else this one alone."""
        if "sets" not in self.recipe:
            return [self]
        named = {name: one for name, one in self.recipe["sets"].items() if one is not None}
        return [
            replace(self, recipe=one, set_name=name, buckets=_buckets_of(one, self.buckets))
            for name, one in named.items()
        ]

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
    config, path = merged.config, ("data", "params", split)
    recipe = inside(config, *path)
    if not recipe and files:
        raise Fault("CFG03", f"the configuration has no {'.'.join(path)}", where=" ".join(files))
    recipe = recipe if names_sets(recipe) else {"target": LOCAL, **recipe}
    if folder is not None:
        recipe = _with_folder(recipe, folder, merged, path)
    require_recipe(merged, faults, recipe, split)
    encoder = inside(config, "model", "params", "cond_stage_config")
    buckets = inside(config, "data", "params", "buckets") or None
    if not names_sets(recipe):
        recipe = {"target": recipe["target"], "params": recipe.get("params") or {}}
    return Given(folder, recipe, config.get("seed") or 0, encoder if encoder else None, buckets, split)


def has_split(files: Sequence[str], settings: Sequence[str], split: str) -> bool:
    """Whether the configs have a recipe for `split`."""
    return bool(files) and bool(inside(upgrade(load_layers(files, settings))[0].config, "data", "params", split))


def _with_folder(recipe: Mapping[str, Any], folder: str, merged: Merged, path: Sequence[str]) -> Mapping[str, Any]:
    """`recipe` reading `folder`. Raises `Fault` CLI03 for several sets, CFG08 and CFG04 as below."""
    if names_sets(recipe):
        fix = "--set " + quoted(f"{'.'.join(path)}.sets.NAME.params.data_root={folder}")
        raise Fault("CLI03", "DIR does not say of which set it is", why=f"{'.'.join(path)} has several", fix=fix)
    require_folder_setting(recipe["target"], merged.where((*path, "target")), "python -m lun.inspect --base YAML")
    return {**recipe, "params": {**(recipe.get("params") or {}), "data_root": folder}}


def _buckets_of(one: Mapping[str, Any], buckets: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Those that a set is read in."""
    return {**buckets, "resolutions": one["resolutions"]} if buckets and one.get("resolutions") else buckets
