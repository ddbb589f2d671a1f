"""Any dataset, read by key, with the random draws of the key's slot."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from ldm.models.pixels import NUMBERS
from lun.data.dataset_protocol import DatasetAccess
from lun.data.example import FURTHER_CAPTIONS, Example
from lun.data.order.law import Key, Size
from lun.data.weigher import weigher_of


class Keyed(Dataset[Example]):
    """`dataset` behind the batch contract: adds `slot` and `example`, hands over draws, checks the first example.

    `dataset` has `__len__` and either `example(index, draws)` or `__getitem__(index)`; both return a map with `image`
    (h, w, 3), uint8 or in [-1, 1], tensor or array, and `caption`; its dtype decides which of the two its values are.
    """

    def __init__(self, dataset: Any, seed: int) -> None:
        self.dataset = dataset
        self.seed = seed
        self.access = DatasetAccess(dataset)
        self.weigher = weigher_of(self.access)
        self.checked = False

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, key: Key) -> Example:
        """The example at `key.example` for `key.slot`. Raises `Fault` DAT08 if the dataset returns something else."""
        slot, index, size, step = Key(*key)
        read = self.access.read(index, Draws(self.seed, slot, step), size)
        if not self.checked:
            check_example(read, self._origin(index))
            self.checked = True
        example: Example = {**read, "slot": slot, "example": index}  # type: ignore[typeddict-item]  # checked above
        if self.weigher is not None:
            example.setdefault("weight", self.weigher(index))
        if size is not None:
            self._require_size(example, size, index)
            self._add_sizes(example, size, index)
        for name in NUMBERS.keys() & example.keys():
            example[name] = _as_travels(name, example[name], self._origin(index))  # type: ignore[literal-required]
        return example

    def _require_size(self, example: Example, size: Size, index: int) -> None:
        width, height = size
        if "image" in example and tuple(example["image"].shape[:2]) != (height, width):
            got = " x ".join(map(str, reversed(example["image"].shape[:2])))
            why = f"{width} x {height} was asked for, {got} came"
            raise _broken("returns a picture of another size", self._origin(index), why)

    def _add_sizes(self, example: Example, size: Size, index: int) -> None:
        """SDXL's sizes and crop of a picture, height before width; a dataset that knows better says so itself."""
        own = self.access.sizes()[index]
        width, height = int(own[0]), int(own[1])
        example.setdefault("original_size", (height, width))
        example.setdefault("target_size", (size[1], size[0]))
        example.setdefault("crop", centre_crop((width, height), size))

    def _origin(self, index: int) -> str:
        return f"{self.access.name}, index {index}"


def centre_crop(picture: Size, size: Size) -> tuple[int, int]:
    """(top, left), in pixels of the picture once it was resized to cover `size`, of the cut in its middle."""
    scale = max(size[0] / picture[0], size[1] / picture[1])
    left, top = ((side * scale - wanted) / 2 for side, wanted in zip(picture, size, strict=True))
    return round(top), round(left)


def check_example(example: object, where: str) -> None:
    """Raise `Fault` DAT08 unless `example` is a map with a sound `image` (or `moments`) and a text `caption`."""
    if not isinstance(example, Mapping):
        raise _broken("returns no map", where, f"got {type(example).__name__}")
    if "image" not in example and "moments" not in example:
        raise _broken("returns no image", where, f"it has the keys {', '.join(map(str, example)) or 'none'}")
    if odd := [key for key in FURTHER_CAPTIONS if not isinstance(example.get(key, ""), str)]:
        raise _broken(f"returns no text as {odd[0]}", where, f"got {type(example[odd[0]]).__name__}")
    if not isinstance(example.get("caption"), str):
        got = f"caption is a {type(example['caption']).__name__}" if "caption" in example else "the key is missing"
        raise _broken("returns no caption", where, got)
    if "image" in example:
        check_image(example["image"], where)


def check_image(image: object, where: str) -> None:
    """Raise `Fault` DAT08 unless `image` is a tensor or array (h, w, 3) of bytes, or of real numbers in [-1, 1]."""
    if isinstance(image, np.ndarray):
        image = torch.from_numpy(image)
    if not isinstance(image, Tensor):
        raise _broken(
            f"returns an image that is a {type(image).__name__}",
            where,
            "it must be a tensor; lun.data.images.decode.to_bytes makes one of a PIL image",
        )
    shape = tuple(image.shape)
    if len(shape) != 3 or shape[2] != 3:
        hint = "; channels come last: image.permute(1, 2, 0)" if len(shape) == 3 and shape[0] == 3 else ""
        raise _broken(f"returns an image of shape {shape}", where, f"it must be (height, width, 3){hint}")
    if _as_travels("image", image, where).dtype == torch.uint8:
        return
    low, high = image.min().item(), image.max().item()
    if not (low >= -1.001 and high <= 1.001):
        hint = ": image / 127.5 - 1" if high > 2 else ""
        raise _broken(f"returns an image with values {low:g} to {high:g}", where, f"it must lie in [-1, 1]{hint}")


def _as_travels(name: str, values: Any, where: str) -> Tensor:
    """A picture or mask as it travels: uint8 stays, floats become float32. Raises `Fault` DAT08 for others."""
    found = torch.as_tensor(values)
    if found.dtype == torch.uint8:
        return found
    if (found.dtype == torch.bool and name == "mask") or found.is_floating_point():
        return found.float()
    numbers = {"image": "float32 in [-1, 1]: image / 127.5 - 1", "mask": "float32 in [0, 1], or bool"}[name]
    raise _broken(f"returns {name} of {found.dtype}", where, f"it must be uint8, 0 to 255, or {numbers}")


def _broken(what: str, where: str, why: str) -> Fault:
    return Fault(
        "DAT08",
        f"the dataset {what}",
        where=where,
        why=why,
        fix='return {"image": (h, w, 3) uint8, or float32 in [-1, 1], "caption": "text"}',
    )
