"""What a run reads, as far as settings and the file system show: asked before anything is imported that takes time.

Whoever reads them asks again, and says the same.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ldm.errors import Fault
from ldm.files.weights_path import path_of_weights
from lun.config.data_recipes import DATA_MODULE
from lun.config.suggestions import FaultCollector, raise_all
from lun.data.index.missing_folder import named_recipes, require_folder

MODELS = "ldm.models."


def require_files(config: Mapping[str, Any], resumed: bool) -> None:
    """Raise `Fault` DAT01 for folders of pictures, and for a new run MOD01 for weights, that are not there; an
    ExceptionGroup of several."""
    raise_all(missing_files(config, resumed))


def missing_files(config: Mapping[str, Any], resumed: bool) -> list[Fault]:
    """The same faults, of which none is raised."""
    faults = FaultCollector()
    faults.collect(partial(require_pictures, config["data"]))
    for path in [] if resumed else _weights(config["model"]):
        faults.collect(partial(path_of_weights, path))
    return faults.faults


def require_pictures(data: Mapping[str, Any]) -> None:
    """The same for the folders alone that training and validation read."""
    faults = FaultCollector()
    for split in ("train", "validation") if data["target"] == DATA_MODULE else ():
        for name, recipe in named_recipes(split, (data.get("params") or {}).get(split)):
            faults.collect(partial(require_folder, recipe, name))
    faults.raise_all()


def _weights(model: Mapping[str, Any]) -> Iterator[str]:
    """The files and folders that a model of this program starts from: its parts' own, and that of all others."""
    if not str(model["target"]).startswith(MODELS):
        return
    params = model.get("params") or {}
    parts = [one.get("params") or {} for one in params.values() if isinstance(one, Mapping)]
    for given in [*(part.get("ckpt_path") for part in parts), params.get("ckpt_path")]:
        each = given.values() if isinstance(given, Mapping) else [given]
        yield from (path for path in each if isinstance(path, str) and path)
