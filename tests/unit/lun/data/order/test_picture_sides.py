"""Sizes that a network with patches cannot take are named with the setting that they come from."""

from typing import Any

import pytest

from ldm.errors import Fault
from lun.data.order.picture_sides import require_sides

LOCAL: dict[str, Any] = {"target": "lun.data.local.Local", "params": {"size": 520}}
SETS = {"sets": {"photos": {"params": {"size": 512}}, "scans": {"params": {"size": 520}}}}


@pytest.mark.parametrize(
    ("params", "where", "fix"),
    [
        ({"train": LOCAL}, "train.params.size", "=512 or 528"),
        ({"train": {"params": {"size": 9}}}, "train.params.size", "=16 or 16"),
        ({"train": {"params": {"size": 512}}, "validation": LOCAL}, "validation.params.size", "=512 or 528"),
        ({"train": SETS}, "train.sets.scans.params.size", "=512 or 528"),
        ({"train": LOCAL, "buckets": {"resolutions": [512], "step": 8}}, "buckets.step", "=16 or 16"),
    ],
)
def test_a_side_that_is_no_multiple_is_refused(params: dict[str, Any], where: str, fix: str) -> None:
    with pytest.raises(Fault) as caught:
        require_sides(16, {"params": params})
    assert (caught.value.id, caught.value.where) == ("CFG08", f"data.params.{where}")
    assert caught.value.fix == f"data.params.{where}{fix}"
    require_sides(1, {"params": params})


def test_what_fits_or_is_not_known_passes() -> None:
    buckets = {"resolutions": [512]}
    for params in ({"train": {"params": {"size": 512}}}, {"train": {}}, {"train": LOCAL, "buckets": buckets}, {}):
        require_sides(16, {"params": params})
