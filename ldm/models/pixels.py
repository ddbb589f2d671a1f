"""Pictures and masks as the bytes in which they travel to the device, and as the numbers that networks see."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def centred(pictures: Tensor) -> Tensor:
    """Bytes of any shape as float32 in [-1, 1]: 0 becomes -1 and 255 becomes 1; numbers stay what they are."""
    return pictures.float().div_(127.5).sub_(1.0) if pictures.dtype == torch.uint8 else pictures


def shares(masks: Tensor) -> Tensor:
    """Bytes of any shape as float32 in [0, 1]; numbers stay what they are."""
    return masks.float().div_(255) if masks.dtype == torch.uint8 else masks


NUMBERS: Mapping[str, Callable[[Tensor], Tensor]] = {"image": centred, "mask": shares}
"""What of a batch may travel as bytes, a quarter of float32, and what its bytes stand for."""


def in_numbers(batch: Any, convert: Callable[[Any], Any]) -> Any:
    """A batch that has arrived on its device, with numbers in place of bytes; anything but a map stays what it is.

    convert  what the run's precision does to inputs, which it could not do to bytes
    """
    if not isinstance(batch, Mapping):
        return batch
    coded = {key for key in NUMBERS if getattr(batch.get(key), "dtype", None) == torch.uint8}
    return {**batch, **{key: convert(NUMBERS[key](batch[key])) for key in coded}} if coded else batch


def on_device(model: Any, batch: Any) -> Any:
    """A batch of a loader as Lightning hands it to the steps of `model`: on its device, with numbers."""
    return model.trainer.strategy.batch_to_device(batch, model.device)
