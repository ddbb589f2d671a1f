"""The callbacks that a configuration names, before any Trainer has them."""

from collections import Counter
from collections.abc import Mapping

from ldm.admission import definition, is_kind
from ldm.errors import Fault
from ldm.lightning_classes import Callback
from ldm.util import Recipe, instantiate_from_config

BARS = frozenset(
    {"lightning.pytorch.callbacks.progress.progress_bar.ProgressBar", "ldm.lightning_classes.TQDMProgressBar"}
)
STATELESS = "lightning.pytorch.callbacks.callback.Callback.state_dict"
"""What every callback of Lightning has that stores nothing."""


def build_callbacks(recipes: Mapping[str, Recipe | None]) -> list[Callback]:
    """The configured callbacks; a name set to null is left out. `Fault` CFG08 for two bars or savers of one file."""
    built = {name: instantiate_from_config(recipe) for name, recipe in recipes.items() if recipe is not None}
    bars = [name for name, callback in built.items() if is_kind(type(callback), BARS)]
    if len(bars) > 1:
        first, second = (f"lightning.callbacks.{name}" for name in bars[:2])
        raise Fault("CFG08", f"{first} and {second} are both progress bars", where=second, fix=f"{first}=null")
    _require_own_places(built)
    return list(built.values())


def _require_own_places(callbacks: Mapping[str, Callback]) -> None:
    """Raise `Fault` CFG08 for two whose states would be stored in one place, such as savers of the same file."""
    keys = {name: _state_key(callback) for name, callback in callbacks.items() if _has_state(callback)}
    for key, times in Counter(keys.values()).items():
        if times > 1:
            names = [name for name, own in keys.items() if own == key]
            raise Fault(
                "CFG08",
                f"the callbacks {' and '.join(names)} would overwrite each other: both are {key}",
                where="lightning.callbacks",
                fix=f"lightning.callbacks.{names[-1]}.params.filename=another, or lightning.callbacks.{names[-1]}=null",
            )


def _has_state(callback: Callback) -> bool:
    """Whether it stores something in checkpoints."""
    stores = getattr(type(callback), "state_dict", None)
    return stores is not None and definition(stores) != STATELESS


def _state_key(callback: Callback) -> str:
    """Where it does: as Lightning has it, by the name of its class unless it says another."""
    return str(getattr(callback, "state_key", type(callback).__qualname__))
