"""Which settings `--data_root` means: that of one recipe, or with NAME=DIR those of several sets."""

from collections.abc import Mapping, Sequence
from os.path import normpath
from pathlib import PurePath
from typing import Any

from ldm.errors import Fault
from ldm.shell import quoted

MISSING = "???"
NOWHERE = "*=."
"""For every set, where no picture is read."""

_TRAIN = ("data", "params", "train")


def data_roots(config: Mapping[str, Any], words: Sequence[str]) -> dict[str, str]:
    """Setting -> folder, for what `--data_root` was given: DIR, or NAME=DIR of each set.

    Raises `Fault` CLI03 for one that does not say which set it means, or means none.
    """
    sets = inside(config, *_TRAIN, "sets")
    if isinstance(sets, Mapping):
        return dict(pair for word in words for pair in _of_set(word, [n for n, one in sets.items() if one is not None]))
    if len(words) > 1:
        few = " ".join(f"--data_root {quoted(word)}" for word in words[:2])
        why = "data.params.train is one recipe, which reads one folder; several sets are data.params.train.sets"
        raise Fault("CLI03", f"--data_root was given {len(words)} times: {few}", why=why, fix="--data_root DIR")
    return dict.fromkeys(roots_of_one(config), words[0]) if words else {}


def roots_of_one(config: Mapping[str, Any]) -> list[str]:
    """The settings that one folder is for: training's, and validation's unless that was set apart."""
    train, validation = (_data_root(config, split) for split in ("train", "validation"))
    shared = validation is not None and validation in (MISSING, train)
    return [f"data.params.{split}.params.data_root" for split in ("train", *(["validation"] if shared else []))]


def name_of_roots(train: Mapping[str, Any]) -> str | None:
    """What the folders of training are called, in the name of a run; None where none is named."""
    recipes = [one for one in (train.get("sets") or {"": train}).values() if one is not None]
    roots = [(one.get("params") or {}).get("data_root") for one in recipes]
    return "+".join(PurePath(normpath(root)).name for root in roots if root) or None


def root_flag(path: Sequence[str]) -> str:
    """What gives the setting at `path`, which ends in `data_root`, its folder on the command line."""
    if tuple(path[:4]) == (*_TRAIN, "sets"):
        return f"--data_root {quoted(f'{path[4]}=DIR')}"
    return "--data_root DIR"


def _of_set(word: str, names: Sequence[str]) -> list[tuple[str, str]]:
    name, equals, folder = word.partition("=")
    if word == NOWHERE:
        return [(_setting(name), ".") for name in names]
    if not equals and len(names) == 1:
        return [(_setting(names[0]), word)]
    if not equals or name not in names:
        what = f"no set is called {name}" if equals else f"--data_root {quoted(word)} does not say of which set"
        why = f"the configuration has the sets {', '.join(names)}"
        raise Fault("CLI03", what, why=why, fix=" ".join(f"--data_root {quoted(f'{name}=DIR')}" for name in names))
    return [(_setting(name), folder)]


def _setting(name: str) -> str:
    return f"data.params.train.sets.{name}.params.data_root"


def _data_root(config: Mapping[str, Any], split: str) -> str | None:
    """Where `split` reads from: `???` if it does not say, None where there is no such split."""
    recipe = inside(config, "data", "params", split)
    if not isinstance(recipe, Mapping):
        return None
    params = recipe.get("params")
    return params.get("data_root", MISSING) if isinstance(params, Mapping) else MISSING


def inside(config: Any, *path: str) -> Any:
    """The value at a path of a configuration that was not checked yet; None where there is none."""
    for key in path:
        config = config.get(key) if isinstance(config, Mapping) else None
    return config
