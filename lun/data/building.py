"""A dataset from its recipe, ready to be read."""

from collections.abc import Mapping
from typing import Any

from ldm.errors import Fault
from ldm.util import instantiate_from_config
from lun.data.hooks import call_hooks
from lun.data.index.missing_folder import of_split
from lun.data.overlap import warn_of_shared_pictures
from lun.data.sets.joined import JoinedSets
from lun.data.sets.set_settings import MixSettings, is_sets


def build_dataset(recipe: Mapping[str, Any], split: str) -> Any:
    """The dataset of `recipe` (target and params, or several sets), prepared by its own hooks.

    split  the setting below `data.params` that holds it: `train`, `validation`, `train.sets.NAME`

    Raises the `Fault` of its builder, DAT08 for what is no dataset, DAT02 for one without examples.
    """
    if is_sets(recipe):
        return build_sets(MixSettings.read(recipe))
    try:
        dataset = instantiate_from_config(recipe)
    except Fault as fault:
        of_split(fault, split)
        raise
    call_hooks(dataset)
    if not hasattr(dataset, "__len__") or not (hasattr(dataset, "example") or hasattr(dataset, "__getitem__")):
        raise Fault(
            "DAT08",
            f"{recipe['target']} is no data set",
            where=f"data.params.{split}",
            why="a data set has __len__ and __getitem__(index) or example(index, draws)",
        )
    if len(dataset) == 0:
        raise Fault(
            "DAT02",
            "0 images, so there is nothing to train on",
            where=f"data.params.{split}",
            why=f"{recipe['target']} has length 0",
        )
    return dataset


def build_sets(settings: MixSettings) -> JoinedSets:
    """The datasets of several sets as one; pictures that two of them read are reported."""
    datasets = {one.name: build_dataset(one.recipe, f"train.sets.{one.name}") for one in settings.sets}
    warn_of_shared_pictures(datasets)
    return JoinedSets(settings.sets, list(datasets.values()))
