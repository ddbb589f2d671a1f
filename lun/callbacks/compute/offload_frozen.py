"""Frozen parts in main memory, so that what trains has the accelerator to itself."""

import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ldm.lightning_classes import Callback, LightningModule, Trainer
from ldm.modules.offload import keep_in_main_memory, stay_in_main_memory

log = logging.getLogger(__name__)


class OffloadFrozen(Callback):
    """Keeps the parts of a model that do not train on the CPU between uses; they are copied over for each.

    SD 1.x: 0.4 GB less on the GPU in half precision, SDXL 1.8 GB; each micro-batch waits for as much to be copied, some
    17 or 70 ms at 25 GB/s. Cached latents (`data.params.cache`) save the first stage's share of that. Stable Diffusion
    3's T5 visits block by block, 0.4 GB at a time of 9.5. On one device none of them is ever there all at once, under
    DDP they are until the first step.
    """

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        from lightning.pytorch.strategies import SingleDeviceStrategy

        if isinstance(trainer.strategy, SingleDeviceStrategy) and hasattr(pl_module, "when_settled"):
            pl_module.when_settled.append(stay)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for prefix in offload(pl_module, pl_module.device):
            log.info("note: %s is kept in main memory between uses", prefix.rstrip("."))


def offload(model: Any, device: torch.device) -> list[str]:
    """Keep a model's frozen parts in main memory while they do not compute on `device`; returns their prefixes."""
    parts = dict(_frozen_parts(model))
    for module in (module for modules in parts.values() for module in modules):
        keep_in_main_memory(module, device)
    return list(parts)


def stay(model: Any) -> None:
    """Let a model's frozen parts lie where they are when the model is moved."""
    for _, modules in _frozen_parts(model):
        for module in modules:
            stay_in_main_memory(module)


def _frozen_parts(model: Any) -> Iterator[tuple[str, tuple[nn.Module, ...]]]:
    """(prefix, the modules of it that compute) of each part that has weights of which none trains."""
    for prefix, part in model.disk_parts().items():
        parameters = list(part.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            yield prefix, part.computing_parts() if hasattr(part, "computing_parts") else (part,)
