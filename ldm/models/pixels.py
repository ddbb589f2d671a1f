"""What of a batch travels to the device; pictures and masks as the bytes that do, and as numbers that networks see."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ldm.transfers import to_device_beside

ON_HOST = ("slot", "example", "ucg_rate", "timesteps", "original_size", "crop", "target_size")
"""Of a batch: what the host makes keyed draws and conditions of. A device that is asked for it makes the host wait."""


def for_device(batch: Mapping[str, Any]) -> dict[str, Any]:
    """What of a batch its device needs: no captions either, in which Lightning would look for tensors one by one."""
    return {name: value for name, value in batch.items() if name not in ON_HOST and not _is_text(value)}


def sent(batch: Mapping[str, Any], device: torch.device) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors of a batch on their way to a device, for which no GPU's host waits; and the rest, where it was.

    Lightning would look for tensors within each value, which takes twenty times as long, and copy them between steps.
    """
    tensors = {name: value for name, value in batch.items() if type(value) is Tensor}
    others = {name: value for name, value in batch.items() if name not in tensors}
    return to_device_beside(tensors, device), others


def _is_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def centred(pictures: Tensor) -> Tensor:
    """Bytes of any shape as float32 in [-1, 1]: 0 becomes -1 and 255 becomes 1; numbers stay what they are."""
    return (pictures / 127.5).sub_(1.0) if pictures.dtype == torch.uint8 else pictures


def shares(masks: Tensor) -> Tensor:
    """Bytes of any shape as float32 in [0, 1]; numbers stay what they are."""
    return masks / 255 if masks.dtype == torch.uint8 else masks


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
