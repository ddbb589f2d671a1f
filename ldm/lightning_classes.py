"""Lightning's classes, as bases and in annotations, for what is built long before anything trains.

Importing Lightning takes as long as importing torch, and most starts only check settings or print a plan. So callbacks,
models and data modules derive from stand-ins without any behaviour, which are Lightning's own classes to a type
checker. `as_lightning` makes an instance one of Lightning's, once a Trainer is about to get it.
"""

import functools
import importlib
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = [
    "Callback",
    "LightningDataModule",
    "LightningModule",
    "Logger",
    "Precision",
    "TQDMProgressBar",
    "TorchCheckpointIO",
    "Trainer",
    "as_lightning",
]

if TYPE_CHECKING:
    from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
    from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
    from lightning.pytorch.callbacks import TQDMProgressBar
    from lightning.pytorch.loggers import Logger
    from lightning.pytorch.plugins.precision import Precision
else:
    Trainer = LightningModule = Logger = Precision = Any  # in annotations; models derive from `ldm.lightning_module`

    class Callback:
        """Lightning's, once a Trainer has it."""

        stands_for = "lightning.pytorch.callbacks.callback.Callback"

    class TQDMProgressBar(Callback):
        """Lightning's, once a Trainer has it."""

        stands_for = "lightning.pytorch.callbacks.progress.tqdm_progress.TQDMProgressBar"

    class LightningDataModule:
        """Lightning's, once a Trainer has it."""

        stands_for = "lightning.pytorch.core.datamodule.LightningDataModule"
        trainer = None

    class TorchCheckpointIO:
        """Lightning's, once a Trainer's strategy has it."""

        stands_for = "lightning.fabric.plugins.io.torch_io.TorchCheckpointIO"


T = TypeVar("T")


def as_lightning(instance: T) -> T:
    """The same object, as one of Lightning's: what derives from a stand-in gets the class and attributes it stands for.

    Done once, before a Trainer gets it: `trainer.fit(as_lightning(model), datamodule=as_lightning(data))`. What is
    Lightning's already, or nothing of it, stays as it is. The base is constructed with `lightning_arguments`, if the
    instance has them.
    """
    stand_in = next((base for base in type(instance).__mro__ if "stands_for" in vars(base)), None)
    if stand_in is None or isinstance(instance, base := _base(stand_in)):
        return instance
    own: dict[str, Any] = vars(instance)
    made = vars(base(**own.pop("lightning_arguments", {})))
    managed = {name: own.pop(name) for name in list(own) if isinstance(getattr(base, name, None), property)}
    own.update({name: value for name, value in made.items() if name not in own})
    kind: Any = type(instance)
    instance.__class__ = _joined(kind, stand_in)
    for name, value in managed.items():
        setattr(instance, name, value)
    return instance


def _base(stand_in: Any) -> Any:
    module, _, name = stand_in.stands_for.rpartition(".")
    return getattr(importlib.import_module(module), name)


@functools.cache
def _joined(kind: Any, stand_in: Any) -> Any:
    """A class of the same name that is Lightning's, too, whose instances can be copied and sent to other processes."""
    base = _base(stand_in)

    def __reduce_ex__(self: Any, protocol: Any) -> Any:  # by name one would find the class as it was
        made = super(joined, self).__reduce_ex__(protocol)
        if type(self) is joined and isinstance(made, tuple) and made[1] == (joined,):
            return (_new, (kind, stand_in), *made[2:])
        return made

    shadowing = [name for name, value in vars(stand_in).items() if inspect.getattr_static(kind, name) is value]
    theirs = {name: inspect.getattr_static(base, name) for name in shadowing if name[0] != "_" and hasattr(base, name)}
    names = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    joined: Any = type(kind.__name__, (kind, base), {**theirs, **names, "__reduce_ex__": __reduce_ex__})
    return joined


def _new(kind: Any, stand_in: Any) -> Any:
    """An instance without attributes, for who copies or unpickles one."""
    joined = _joined(kind, stand_in)
    return joined.__new__(joined)
