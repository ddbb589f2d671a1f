"""A dataset from its recipe, ready to be read."""

from collections.abc import Mapping
from typing import Any

from ldm.errors import Fault
from ldm.util import instantiate_from_config
from lun.data.hooks import call_hooks


def build_dataset(recipe: Mapping[str, Any], split: str) -> Any:
    """The dataset of `recipe` (target and params), prepared by its own hooks.

    Raises the `Fault` of its builder, DAT08 for what is no dataset, DAT02 for one without examples.
    """
    try:
        dataset = instantiate_from_config(recipe)
    except Fault as fault:
        fault.fix = fault.fix.replace("data.params.train.", f"data.params.{split}.")
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
