"""What the plan tells of a cache."""

from typing import Any

import pytest

from lun.data.cache.disk_size import describe_moments

FIRST_STAGE = {"embed_dim": 4, "ddconfig": {"ch_mult": [1, 2, 4, 4]}}
LOCAL = "lun.data.local.Local"


def told(cache: Any, train: Any, images: int = 1000, first_stage: Any = FIRST_STAGE, **data: Any) -> str | None:
    model = {"params": {"first_stage_config": {"params": first_stage}}}
    return describe_moments({"data": {"params": {"cache": cache, "train": train, **data}}, "model": model}, images)


def one(**params: Any) -> Any:
    return {"target": LOCAL, "params": params}


@pytest.mark.parametrize(
    ("cache", "train", "data", "says"),
    [
        (True, one(), {}, "at most 2,000 moments (1,000 images x 2 ways round), 0.24 GiB at 512 pixels"),
        (
            True,
            one(flip_p=0.0, size=64),
            {},
            "at most 1,000 moments (1,000 images x 1 way round), 0.00 GiB at 64 pixels",
        ),
        (
            {"variants": 4, "dtype": "float16"},
            one(crop="random"),
            {"buckets": {"resolutions": [512, 1024]}},
            "at most 4,000 moments (1,000 images x 4 variants), 0.98 GiB at 1024 pixels",
        ),
        (
            {"variants": 8},
            {"sets": {"a": one(), "b": one(rotate=3.0), "c": None}},
            {},
            "at most 8,000 moments (1,000 images x 8 variants), 0.98 GiB at 512 pixels",
        ),
        (True, one(size=None), {}, "at most 2,000 moments (1,000 images x 2 ways round)"),
    ],
)
def test_the_disk_that_moments_take_is_told(cache: Any, train: Any, data: Any, says: str) -> None:
    assert told(cache, train, **data) == says


def test_nothing_is_told_without_a_cache_nor_bytes_of_a_first_stage_that_hides_its_shape() -> None:
    assert told(None, one()) is None and told(False, one()) is None
    assert told(True, one(), first_stage={}) == "at most 2,000 moments (1,000 images x 2 ways round)"
