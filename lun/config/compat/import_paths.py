"""Import paths of old configurations and what they are called today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lun.config.compat.rewriting import Config, Upgrade, at, put, rewrite

MOVED: Mapping[str, str] = {
    "main.ImageLogger": "lun.callbacks.ImageLogger",
    "main.DataModuleFromConfig": "lun.data.module.DataModuleFromConfig",
    "main.LearningRateMonitor": "lightning.pytorch.callbacks.LearningRateMonitor",
    "lun.data.local.LocalBase": "lun.data.local.Local",
    "ldm.modules.encoders.modules.FrozenCLIPEmbedder": "ldm.modules.encoders.clip.FrozenCLIPEmbedder",
    "ldm.modules.encoders.modules.FrozenOpenCLIPEmbedder": "ldm.modules.encoders.openclip.FrozenOpenCLIPEmbedder",
    "ldm.modules.encoders.modules.HashedWordEmbedder": "ldm.modules.encoders.words.HashedWordEmbedder",
    "ldm.modules.encoders.HashedWordEmbedder": "ldm.modules.encoders.words.HashedWordEmbedder",
    "ldm.modules.diffusionmodules.openaimodel.UNetModel": "ldm.modules.networks.compvis.UNetModel",
    "lun.callbacks.offload.OffloadFrozen": "lun.callbacks.OffloadFrozen",
    "lun.callbacks.offload_frozen.OffloadFrozen": "lun.callbacks.OffloadFrozen",
    "lun.callbacks.block_swap.BlockSwap": "lun.callbacks.BlockSwap",
    "lun.callbacks.compiled_blocks.CompiledBlocks": "lun.callbacks.CompiledBlocks",
    "lun.callbacks.fused_backward.FusedBackward": "lun.callbacks.FusedBackward",
    "lun.data.buckets.Buckets": "lun.data.order.buckets.Buckets",
    "ldm.modules.ema_profiles.ConstantDecay": "ldm.ema.profiles.ConstantDecay",
    "ldm.modules.ema_profiles.HalfLife": "ldm.ema.profiles.HalfLife",
    "ldm.modules.ema_profiles.InverseGamma": "ldm.ema.profiles.InverseGamma",
    "ldm.modules.ema_profiles.PowerDecay": "ldm.ema.profiles.PowerDecay",
    "ldm.modules.ema_profiles.TrailingMean": "ldm.ema.profiles.TrailingMean",
    "ldm.diffusion.timesteps.Uniform": "ldm.diffusion.timesteps.UniformTimesteps",
    "pytorch_lightning.loggers.TestTubeLogger": "lightning.pytorch.loggers.CSVLogger",
    "pytorch_lightning.loggers.test_tube.TestTubeLogger": "lightning.pytorch.loggers.CSVLogger",
}
PACKAGES: Mapping[str, str] = {"pytorch_lightning.": "lightning.pytorch."}
REPLACED: Mapping[str, str] = {
    "main.CUDACallback": "lun.callbacks.Throughput",
    "lun.callbacks.EpochVram": "lun.callbacks.Throughput",
}
DROPPED: Mapping[str, str] = {
    "main.SetupCallback": "the run directory is made before training starts",
    "main.ModeSwapCallback": "the mode of a model does not change while it trains",
    "lun.callbacks.CustomCheckpointing": "lun.callbacks.Checkpoint keeps all that a run needs to go on",
}


def targets(config: Config) -> Upgrade:
    """Old import paths replaced everywhere, callbacks without a successor left out."""
    config, notes = _callbacks(config)
    renamed: dict[str, str] = {}

    def translated(recipe: Config) -> Config:
        new = successor(recipe["target"])
        if new != recipe["target"]:
            renamed[recipe["target"]] = new
        return {**recipe, "target": new}

    config = rewrite(config, translated)
    if renamed:
        pairs = ", ".join(f"{old} -> {new}" for old, new in sorted(renamed.items()))
        notes.append(f"old import paths are read as their successors: {pairs}")
    return Upgrade(config, tuple(notes))


def successor(target: str) -> str:
    """Today's import path of `target`, or `target` itself."""
    if target in MOVED:
        return MOVED[target]
    for old, new in PACKAGES.items():
        if target.startswith(old):
            return new + target.removeprefix(old)
    return target


def is_old(target: str) -> bool:
    return target in REPLACED or target in DROPPED or successor(target) != target


def _callbacks(config: Config) -> tuple[Config, list[str]]:
    notes: list[str] = []
    kept: dict[str, Any] = {}
    given = at(config, "lightning", "callbacks")
    for name, recipe in given.items():
        target = str(recipe.get("target")) if isinstance(recipe, Mapping) else ""
        if target in DROPPED:
            notes.append(f"lightning.callbacks.{name} ({target}) is left out: {DROPPED[target]}")
        elif target in REPLACED:
            kept[name] = {"target": REPLACED[target]}
            notes.append(f"lightning.callbacks.{name}: {target} is now {REPLACED[target]}, without settings")
        else:
            kept[name] = recipe
    return (put(config, kept, "lightning", "callbacks") if given else config), notes
