"""What happens beside the training step: saving, stopping, drawing samples, logging how it goes."""

from importlib import import_module
from typing import Any

_MODULES = {
    "AtStepBoundary": "lun.loop.boundary",
    "FollowPosition": "lun.loop.position_callback",
    "BlockSwap": "lun.callbacks.compute.block_swap",
    "AtomicIO": "lun.checkpoints.atomic",
    "Checkpoint": "lun.callbacks.checkpointing",
    "FinalCheckpoint": "lun.callbacks.checkpointing",
    "DiskSpace": "lun.callbacks.space",
    "Divergence": "lun.callbacks.divergence",
    "Export": "lun.callbacks.export",
    "Stops": "lun.callbacks.stops",
    "ImageLogger": "lun.callbacks.images",
    "EmaSnapshots": "lun.callbacks.ema_snapshots",
    "OffloadFrozen": "lun.callbacks.compute.offload_frozen",
    "FusedBackward": "lun.callbacks.compute.fused_backward",
    "LossByNoiseLevel": "lun.callbacks.numbers.grouped_losses",
    "LossBySize": "lun.callbacks.numbers.grouped_losses",
    "LossByTag": "lun.callbacks.numbers.grouped_losses",
    "HeldOutGap": "lun.callbacks.numbers.held_out_gap",
    "PictureLosses": "lun.callbacks.numbers.picture_losses",
    "SampleScores": "lun.callbacks.numbers.sample_scores",
    "GradientNorms": "lun.callbacks.numbers.step_numbers",
    "WeightChanges": "lun.callbacks.numbers.step_numbers",
    "SmoothedProgressBar": "lun.callbacks.progress",
    "CompiledBlocks": "lun.callbacks.compute.compiled_blocks",
    "Throughput": "lun.callbacks.throughput",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a callback when it is first asked for, so that naming this package does not import torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES[name]
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
