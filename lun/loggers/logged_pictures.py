"""One picture to a logger, in the way of each."""

import sys
from typing import Any

import torch
from PIL import Image

from ldm.lightning_classes import Logger


def log_picture(logger: Logger, tag: str, picture: Image.Image, step: int) -> None:
    """Under a tag that never changes, so that a slider over steps becomes a time lapse; nothing where none is taken."""
    from lightning.pytorch.loggers import MLFlowLogger, TensorBoardLogger

    if isinstance(logger, TensorBoardLogger):
        pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
        shape = picture.height, picture.width, 3
        logger.experiment.add_image(tag, pixels.view(shape), step, dataformats="HWC")
    elif isinstance(logger, MLFlowLogger):
        logger.experiment.log_image(logger.run_id, picture, key=tag, step=step)
    elif hasattr(logger, "log_image"):  # W&B, trackio
        logger.log_image(tag, [picture], step)
    elif type(logger).__module__.partition(".")[0] == "aim":
        aim: Any = sys.modules["aim"]
        logger.experiment.track(aim.Image(picture), name=tag, step=step)
