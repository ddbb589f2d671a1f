"""Drawing: batches of pictures through the model, on any device and in any type."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from ldm.errors import Fault
from ldm.models.diffusion.ddpm import DDPM
from ldm.models.diffusion.picture_size import pixels_per_latent
from ldm.models.diffusion.preview import previewing, sample_clean
from lun.sample.pictures import Picture

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def place(model: DDPM, device: str | None, dtype: str) -> None:
    """Move the model to a device (an accelerator if there is one), its networks but the first stage in `dtype`.

    The first stage stays in fp32: SDXL's overflows fp16. Raises `Fault` DEV01 for a device that is not there.
    """
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    try:
        model.to(torch.device(device) if device else accelerator or torch.device("cpu"))
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise Fault(
            "DEV01", f"the device {device} cannot be used", where="--device", why=why, fix="--device cpu"
        ) from error
    for network in (model.model, getattr(model, "cond_stage_model", None)):
        if network is not None:
            network.to(DTYPES[dtype])


def draw(model: DDPM, batch: Sequence[Picture], dtype: str) -> Tensor:
    """Pictures of the same size and way of drawing: (n, 3, h, w) in about [-1, 1], fp32 on the CPU."""
    first = batch[0]
    step = pixels_per_latent(model)
    with previewing(model):
        with _autocast(model, dtype):
            latents = sample_clean(
                model,
                [picture.caption for picture in batch],
                [picture.seed for picture in batch],
                first.how,
                (first.height // step, first.width // step),
                [picture.negative for picture in batch],
            )
        return model.decode(latents.float()).float().cpu()


def is_broken(image: Tensor) -> bool:
    """Whether a picture (3, h, w) holds values that are no numbers."""
    return not bool(image.isfinite().all())


def _autocast(model: DDPM, dtype: str) -> AbstractContextManager[object]:
    return nullcontext() if dtype == "fp32" else torch.autocast(model.device.type, DTYPES[dtype])
