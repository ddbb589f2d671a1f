"""What a run reads, as far as settings and the file system tell: asked before anything is imported that takes time.

Whoever reads them asks again, and says the same.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.files.weights_path import path_of_weights
from lun.config.data_recipes import DATA_MODULE, LOCAL
from lun.config.suggestions import FaultCollector
from lun.data.index.missing_folder import check_folder, of_split

MODELS = "ldm.models."


def require_files(config: Mapping[str, Any], resumed: bool) -> None:
    """Raise `Fault` DAT01 for folders of pictures, and for a new run MOD01 for weights, that are not there; an
    ExceptionGroup of several."""
    faults = FaultCollector()
    for split, root in _roots(config["data"]):
        faults.collect(partial(_require_folder, root, split))
    for path in [] if resumed else _weights(config["model"]):
        faults.collect(partial(path_of_weights, path))
    faults.raise_all()


def _roots(data: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """What reads a folder, by the setting below `data.params`, and the folder."""
    if data["target"] != DATA_MODULE:
        return
    for split in ("train", "validation"):
        for name, recipe in _recipes(split, (data.get("params") or {}).get(split)):
            if recipe.get("target") == LOCAL:
                yield name, Path(recipe["params"]["data_root"]).expanduser()


def _recipes(split: str, one: Mapping[str, Any] | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A dataset's recipe, or those of several sets, by the settings that hold them; none for what is switched off."""
    sets = one.get("sets") if one else None
    named = {split: one} if sets is None else {f"{split}.sets.{name}": each for name, each in sets.items()}
    yield from ((name, recipe) for name, recipe in named.items() if recipe is not None)


def _require_folder(root: Path, split: str) -> None:
    try:
        check_folder(root)
    except Fault as fault:
        of_split(fault, split)
        raise


def _weights(model: Mapping[str, Any]) -> Iterator[str]:
    """The files and folders that a model of this program starts from: its parts' own, and that of all others."""
    if not str(model["target"]).startswith(MODELS):
        return
    params = model.get("params") or {}
    parts = [one.get("params") or {} for one in params.values() if isinstance(one, Mapping)]
    for given in [*(part.get("ckpt_path") for part in parts), params.get("ckpt_path")]:
        each = given.values() if isinstance(given, Mapping) else [given]
        yield from (path for path in each if isinstance(path, str) and path)
