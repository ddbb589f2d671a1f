"""Which objects a YAML may name: defined in an allowed package, and of a kind that is safe to build."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

OURS = ("ldm", "lun")
OPTIMIZERS = ("bitsandbytes", "schedulefree", "prodigyopt")  # of the extra `optim`
LIBRARIES = ("torch", "lightning", "diffusers", "transformers", "deepspeed", *OPTIMIZERS)

_PARTS_OF_LIBRARIES = frozenset(
    {
        "torch.nn.modules.module.Module",
        "torch.optim.optimizer.Optimizer",
        "torch.optim.lr_scheduler.LRScheduler",
        "torch.utils.data.dataset.Dataset",
        "torch.utils.data.sampler.Sampler",
        "lightning.pytorch.callbacks.callback.Callback",
        "lightning.pytorch.loggers.logger.Logger",
        "lightning.pytorch.core.datamodule.LightningDataModule",
        "lightning.pytorch.profilers.profiler.Profiler",
        "lightning.pytorch.strategies.strategy.Strategy",
        "lightning.pytorch.accelerators.accelerator.Accelerator",
        "lightning.pytorch.plugins.precision.precision.Precision",
        "lightning.fabric.plugins.environments.cluster_environment.ClusterEnvironment",
        "lightning.fabric.plugins.io.checkpoint_io.CheckpointIO",
        "diffusers.configuration_utils.ConfigMixin",
        "transformers.configuration_utils.PreTrainedConfig",
        "transformers.configuration_utils.PretrainedConfig",
        "transformers.tokenization_utils_base.PreTrainedTokenizerBase",
    }
)


def may_import(path: str, allow: Sequence[str] = ()) -> bool:
    """Whether an import path lies in a package that a config may name; asked before anything is imported."""
    return _lies_in(path, (*OURS, *LIBRARIES, *allow))


def refusal(found: Any, allow: Sequence[str] = ()) -> str | None:
    """Why the object that a path led to may not be built from a config, or None where it may.

    Functions are taken from our own packages and from `allow` alone, since a function of a library may do anything
    (`torch.utils.collect_env.run` starts a shell); classes of libraries only where they are parts of a training run.
    """
    home = definition(found)
    if not callable(found):
        return "it is not a class or a function"
    if _lies_in(home, (*OURS, *allow)):
        return None
    if not _lies_in(home, LIBRARIES):
        return f"it is defined in {home.rpartition('.')[0] or home}, which is not among the allowed packages"
    if not inspect.isclass(found):
        return "it is a function of a library; from libraries only classes can be built"
    if not is_kind(found, _PARTS_OF_LIBRARIES):
        return "it is no module, optimizer, schedule, dataset, callback, logger or other part of a training run"
    return None


def definition(found: Any) -> str:
    """The import path at which a class or function was defined, whatever path led to it."""
    owner = found if inspect.isclass(found) or hasattr(found, "__qualname__") else type(found)
    bound_to = getattr(found, "__self__", None)
    module = getattr(owner, "__module__", None) or getattr(type(bound_to), "__module__", "") or "builtins"
    return f"{module}.{getattr(owner, '__qualname__', '')}"


def is_kind(found: Any, kinds: frozenset[str]) -> bool:
    """Whether a class is, or derives from, one of the classes named by import path (nothing is imported to know)."""
    return inspect.isclass(found) and any(f"{base.__module__}.{base.__qualname__}" in kinds for base in found.__mro__)


def _lies_in(path: str, packages: Sequence[str]) -> bool:
    return any(path == package or path.startswith(package + ".") for package in packages)
