"""What of a model is not on the card while it trains: offloaded parts, and those that caches answer for."""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.models.diffusion.ddpm import DDPM
from ldm.util import instantiate_from_config
from lun.callbacks.compute.block_swap import BlockSwap
from lun.callbacks.compute.offload_frozen import OffloadFrozen, offload
from lun.data.cache.latents.encoder import LatentEncoder
from lun.data.cache.text.encoder import TextEncoder
from lun.data.cache.text.fill import BATCH, EMPTY
from lun.memory.live import LiveBytes
from lun.memory.named_callbacks import named
from lun.run.fill_caches import frozen_text_encoder, require_first_stage

CARD = torch.device("cpu")
"""What stands for it: tensors without memory lie anywhere."""


class Sized(Protocol):
    """Pictures at once, their sides in pixels, and whether their captions are cached as well."""

    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def cached_text(self) -> bool: ...


def keep_elsewhere(model: DDPM, config: Mapping[str, Any]) -> None:
    """Let what a configuration has in main memory lie there: frozen parts between uses, blocks that are streamed."""
    for _ in named(config, OffloadFrozen):
        offload(model, CARD)
    for recipe in named(config, BlockSwap):
        instantiate_from_config(recipe).stream(model, CARD)


def staying_on(device: str, model: nn.Module) -> list[Tensor]:
    """Parameters and buffers that stay on "cuda"; on the "cpu", from where others visit, all of them."""
    tensors = [*model.parameters(), *model.buffers()]
    return [tensor for tensor in tensors if device == "cpu" or not hasattr(tensor, "visits")]


def fill_caches(model: DDPM, live: LiveBytes, load: Sized, device: str) -> int:
    """The peak of filling them; afterwards the text encoder is in main memory, if its captions are kept.

    That holds for captions that each access gives word for word; others are encoded as they come.
    Raises `Fault` CFG08 for a model without a first stage.
    """
    require_first_stage(model)
    built: Any = model
    with live.phase() as peak:
        LatentEncoder(built.first_stage_model, CARD)(torch.empty(1, load.height, load.width, 3))
        if load.cached_text and (encoder := frozen_text_encoder(built)):
            encode = TextEncoder(encoder, CARD)
            built.conditioner.embedder = Remembered(encode([EMPTY]))
            encode([EMPTY] * BATCH)
            for tensor in staying_on(device, encoder) if device == "cuda" else ():
                tensor.data = torch.empty(0)
        return peak()


def moments_of(model: DDPM, count: int, load: Sized) -> Tensor:
    """As a cache gives them: (count, 2 channels, h, w)."""
    pixels = model.first_stage_model.downsampling
    return torch.empty(count, 2 * model.channels, load.height // pixels, load.width // pixels)


class Remembered:
    """Takes the place of a text encoder: rows like the one that it gave."""

    def __init__(self, row: Conditioning) -> None:
        self.row = row

    def __call__(self, captions: list[str]) -> Conditioning:
        return self.row.map(lambda tensor: tensor.new_empty(len(captions), *tensor.shape[1:]))
