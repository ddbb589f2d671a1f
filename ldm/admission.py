"""The gate between an import path that somebody wrote and a call: what a configuration may build.

Configurations are shared: a YAML, a run directory, a preset may come from anybody. So an object is built from one only
if it is a part of a training run (a module, a callback, a dataset ...), if it is marked `@configurable` where it is
declared, or if it lies in what the person at this machine trusts: `lun.local` and packages granted by name. Functions
of libraries never are: `torch.utils.collect_env.run("...")` would start a shell.
"""

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ldm.errors import Fault

PROJECT = ("ldm", "lun")
DRAWER = "lun.local"
"""The person's own modules."""
OPTIMIZERS = ("bitsandbytes", "schedulefree", "prodigyopt", "pytorch_optimizer")  # of the extra `optim`
LIBRARIES = ("torch", "lightning", "diffusers", "transformers", "deepspeed", *OPTIMIZERS)

_PARTS = frozenset(
    {
        "torch.nn.modules.module.Module",
        "torch.optim.optimizer.Optimizer",
        "torch.optim.lr_scheduler.LRScheduler",
        "torch.utils.data.dataset.Dataset",
        "torch.utils.data.sampler.Sampler",
        "ldm.lightning_classes.Callback",
        "ldm.lightning_classes.LightningDataModule",
        "ldm.lightning_classes.TorchCheckpointIO",
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
_MARK = "__configurable__"
_granted: tuple[str, ...] = ()

T = TypeVar("T")


def configurable(target: T) -> T:
    """Mark a class or function of this project as one that a configuration may name (as a decorator).

    For what is no part by its base class. It must do nothing but compute with what it is given: no paths, no imports,
    no processes. A subclass is not marked by its base.
    """
    setattr(target, _MARK, True)
    return target


def grant(packages: Sequence[str]) -> None:
    """Trust these packages, and no others, for the rest of this process: what the person trusts by name."""
    global _granted
    _granted = tuple(packages)


def granted() -> tuple[str, ...]:
    """The packages that the person named."""
    return _granted


def admitted(path: str, find: Callable[[str], Any] | None = None) -> Any:
    """The class or function at an import path, where a configuration may build it.

    find   the object at a path, where it is not to be imported

    Raises `Fault` CFG04 where it may not, or where there is none. A path outside the admitted packages is not even
    imported, and nothing that is found is called.
    """
    if not may_import(path):
        raise Fault(
            "CFG04",
            f"cannot load target {path}",
            why=f"a config may only name objects of {', '.join((*PROJECT, *LIBRARIES, *_granted))}",
        )
    part = (find or get_obj_from_str)(path)
    if reason := refusal(part):
        raise Fault(
            "CFG04",
            f"target {path} is refused",
            why=reason,
            fix=f"write a class or function of your own in {DRAWER} and name that",
        )
    return part


def may_import(path: str) -> bool:
    """Whether an import path lies in a package that a configuration may name; asked before anything is imported.

    Modules such as `__main__`, which act when they are imported, never do.
    """
    dunder = any(name.startswith("__") for name in path.split("."))
    return not dunder and _lies_in(path, (*PROJECT, *LIBRARIES, *_granted))


def refusal(part: Any) -> str | None:
    """Why a configuration may not build the object that a path led to, or None where it may."""
    home = definition(part)
    if not callable(part):
        return "it is not a class or a function"
    if _lies_in(home, (DRAWER, *_granted)):
        return None
    if not _lies_in(home, (*PROJECT, *LIBRARIES)):
        return f"it is defined in {home.rpartition('.')[0] or home}, which is not among the allowed packages"
    if is_kind(part, _PARTS) or _MARK in getattr(part, "__dict__", {}):
        return None
    if _lies_in(home, LIBRARIES) and not inspect.isclass(part):
        return "it is a function of a library; from libraries only classes can be built"
    return "it is no module, optimizer, schedule, dataset, callback, logger or other part of a training run"


def get_obj_from_str(path: str, load: Callable[[str], Any] = importlib.import_module) -> Any:
    """The object at a dotted import path, such as `torch.nn.Identity`; for paths that the program itself wrote.

    load   a module by its name, as `importlib.import_module` does it
    Raises `Fault` CFG04 if no part of the path is a module or the module has no such attribute. An error inside the
    module itself (a broken import of its own) is raised as it is.
    """
    names = path.split(".")
    if not all(name.isidentifier() for name in names):
        raise Fault("CFG04", f"cannot load target {path}", why="it is no import path such as package.module.Class")
    for size in range(len(names) - 1, 0, -1):
        module_name = ".".join(names[:size])
        try:
            value = load(module_name)
        except ModuleNotFoundError as error:
            if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
                continue
            raise
        for name in names[size:]:
            if not hasattr(value, name):
                raise Fault("CFG04", f"cannot load target {path}", why=f"{module_name} has no attribute {name!r}")
            value = getattr(value, name)
        return value
    raise Fault("CFG04", f"cannot load target {path}", why=f"there is no module {names[0]!r} on the import path")


def definition(value: Any) -> str:
    """The import path at which a class or function was defined, whatever path led to it."""
    owner = value if inspect.isclass(value) or hasattr(value, "__qualname__") else type(value)
    bound_to = getattr(value, "__self__", None)
    module = getattr(owner, "__module__", None) or getattr(type(bound_to), "__module__", "") or "builtins"
    return f"{module}.{getattr(owner, '__qualname__', '')}"


def is_kind(value: Any, kinds: frozenset[str]) -> bool:
    """Whether a class is, or derives from, one of the classes named by import path (nothing is imported to know)."""
    return inspect.isclass(value) and any(f"{base.__module__}.{base.__qualname__}" in kinds for base in value.__mro__)


def _lies_in(path: str, packages: Sequence[str]) -> bool:
    return any(path == package or path.startswith(package + ".") for package in packages)
