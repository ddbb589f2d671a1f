"""The recipe of a data set in a configuration, for commands that read the data section alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from ldm.errors import Fault
from lun.config.reading.load_layers import Merged
from lun.config.recipes import RecipeCheck
from lun.config.signature import accepted_by, target_at
from lun.config.targets import find_target

LOCAL = "lun.data.local.Local"
DATA_MODULE = "lun.data.module.DataModuleFromConfig"


def inside(config: Any, *path: str) -> Any:
    """The map at a path of a configuration; empty where there is none."""
    for key in path:
        config = config.get(key) if isinstance(config, Mapping) else None
    return config if isinstance(config, Mapping) else {}


def require_recipe(merged: Merged, faults: Sequence[Fault], recipe: Mapping[str, Any], split: str) -> None:
    """Raise the faults of `recipe` as `data.params.<split>`, together with `faults` that are known already."""
    check = RecipeCheck(merged)
    owner = target_at(DATA_MODULE)
    check.parameter(owner, split, recipe, accepted_by(owner).parameters[split], ("data", "params", split))
    check.look_at_the_rest()
    if found := [*faults, *check.faults]:
        raise ExceptionGroup("faults in the configuration", found)


def require_folder_setting(target: str, where: str, command: str) -> None:
    """Raise `Fault` CFG08 for a class that takes no `data_root`, CFG04 for one that may not be named.

    command  what to type in place of a line with DIR
    """
    accepted = accepted_by(find_target(target))
    if "data_root" not in accepted.parameters and not accepted.anything:
        what = f"{target} takes no data_root, so that DIR has no effect"
        raise Fault("CFG08", what, where=where, fix=f"{command}    (without DIR)")
