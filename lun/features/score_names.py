"""The numbers that `lun.features.scoring` makes of samples: what each takes, and which way is better."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Score:
    """encoder   which one makes it
    of_data   whether it compares samples with data
    better    whether more or less of it is; empty where neither alone is good
    """

    encoder: Literal["clip", "dino", "features"]
    of_data: bool = True
    better: Literal["more", "less", ""] = "less"


SCORES: Mapping[str, Score] = {
    "clip_score": Score("clip", of_data=False, better="more"),
    "cmmd": Score("clip"),
    "fd_dino": Score("dino"),
    "fd_features": Score("features"),
    "nearest_clip": Score("clip", better=""),
    "nearest_dino": Score("dino", better=""),
    "nearest_features": Score("features", better=""),
}
"""By name. What is near the data may be good or a copy of it, so that `nearest_*` names no best."""
