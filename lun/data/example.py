"""What a dataset returns for one picture and what the network receives for several: the keys, written down once."""

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict

import torch
from torch import Tensor

from ldm.errors import Fault
from ldm.models.pixels import NUMBERS
from ldm.modules.encoders.captions import FURTHER

FURTHER_CAPTIONS = tuple(f"caption_{number}" for number in FURTHER)
OPTIONAL = ("mask", "weight", *FURTHER_CAPTIONS)


class Example(TypedDict, total=False):
    """One picture and what is known about it."""

    image: Tensor
    """(h, w, 3): uint8, which is divided on the device, or float32 in [-1, 1]"""
    caption: Required[str]
    caption_2: str
    """for the second text encoder of a model, where it gets another one; `caption_3` for the third"""
    caption_3: str
    slot: int
    """place in the endless sequence of examples; every random draw of this example is keyed by it"""
    example: int
    """its number in the data set"""
    moments: Tensor
    """(2z, h/f, w/f): mean and log-variance of the first stage, in place of `image`"""
    mask: Tensor
    """(h, w): how much each pixel counts in the loss; uint8, 255 in full, or float32, 1 in full"""
    weight: float
    """how much this example counts in the loss"""
    timesteps: tuple[int, int]
    """noise levels [low, high) that it may be trained at; a high of -1 means up to the last one"""
    set: str
    """the name of the set that it is of, where there are several"""
    kind: str
    """`prior`: the network is to go on treating it as its base does"""
    ucg_rate: float
    """how often its caption is dropped whole; below 0 as the model says"""
    original_size: tuple[int, int]
    """(height, width) of the file in pixels"""
    crop: tuple[int, int]
    """(top, left) of the crop in pixels of the resized picture"""
    target_size: tuple[int, int]
    """(height, width) of `image` in pixels"""


class Batch(TypedDict, total=False):
    """The same keys for b examples."""

    image: Tensor
    """(b, h, w, 3): uint8 up to the device, float32 in [-1, 1] for the model"""
    caption: Required[list[str]]
    caption_2: list[str]
    caption_3: list[str]
    slot: Required[Tensor]
    """(b,) int64"""
    example: Tensor
    """(b,) int64"""
    moments: Tensor
    """(b, 2z, h/f, w/f)"""
    mask: Tensor
    """(b, h, w): uint8 up to the device, float32 in [0, 1] for the model"""
    weight: Tensor
    """(b,) float32"""
    timesteps: Tensor
    """(b, 2) int64"""
    set: list[str]
    kind: list[str]
    ucg_rate: Tensor
    """(b,) float32"""
    original_size: Tensor
    """(b, 2) int64"""
    crop: Tensor
    """(b, 2) int64"""
    target_size: Tensor
    """(b, 2) int64"""


def collate(examples: Sequence[Example]) -> Batch:
    """One batch of `examples` in their order: tensors are stacked, numbers become tensors, text stays a list.

    Where only some pictures or masks are bytes, those become numbers too. Where only some examples have a mask or a
    weight, the others count in full; where only some have a caption for a further text encoder, the others' caption is
    every encoder's.

    Raises `Fault` DAT09 if the examples do not have the same keys and shapes.
    """
    rows: Sequence[dict[str, Any]] = examples  # type: ignore[assignment]  # user's keys beyond the typed ones pass too
    rows = [{**_absent(rows, row), **row} for row in rows]
    keys = rows[0].keys()
    if any(row.keys() != keys for row in rows):
        raise Fault(
            "DAT09",
            "the examples of one batch have different keys",
            why=" / ".join(sorted({", ".join(sorted(row)) for row in rows})),
            fix="let the dataset return the same keys for every index",
        )
    return {key: _column(key, [row[key] for row in rows]) for key in keys}  # type: ignore[return-value]


def _absent(rows: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> dict[str, Any]:
    """What `row` lacks of the optional keys that another row has: counted in full, given its caption."""
    lacking = {key for key in OPTIONAL if key not in row and any(key in other for other in rows)}
    defaults: dict[str, Any] = {"weight": 1.0} if "weight" in lacking else {}
    defaults |= {key: row["caption"] for key in FURTHER_CAPTIONS if key in lacking}
    if "mask" in lacking:
        mask = next(other["mask"] for other in rows if "mask" in other)
        defaults["mask"] = torch.full_like(mask, 255 if mask.dtype == torch.uint8 else 1)
    return defaults


def _column(key: str, values: list[Any]) -> Any:
    if isinstance(values[0], Tensor):
        return _stack(key, values)
    if key == "weight":
        return torch.tensor(values, dtype=torch.float32)
    if isinstance(values[0], int | float | tuple):
        made = torch.tensor(values)
        return made.float() if made.is_floating_point() else made
    return values


def _stack(key: str, tensors: list[Tensor]) -> Tensor:
    shapes = sorted({tuple(tensor.shape) for tensor in tensors})
    if len(shapes) > 1:
        raise Fault(
            "DAT09",
            f"the pictures of one batch have different sizes ({key})",
            why="shapes " + ", ".join(map(str, shapes)),
            fix="data.params.batch_size=1, or one size for all pictures in the params of the data set",
        )
    if key in NUMBERS and len({tensor.dtype for tensor in tensors}) > 1:
        tensors = list(map(NUMBERS[key], tensors))
    return torch.stack(tensors)
