"""What `data.params.train.sets` says: which sets there are, how often each is read, and how much it counts."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Literal, Required, TypedDict

from ldm.errors import Fault
from ldm.util import Recipe

WHERE = "data.params.train.sets"
SUM = "sum"

KINDS = ("train", "class", "prior")

_NAME = re.compile(r"[A-Za-z0-9][\w\-]*")


class SetRecipe(TypedDict, total=False):
    """One set: a recipe, and how it is mixed with the others; NAME is its identity in logs, metrics and at a resume."""

    target: Required[str]
    """its dataset"""
    params: Mapping[str, Any]
    """what that takes"""
    repeats: float
    """how often each of its pictures is read in one epoch, 1; 0.5 is once in two epochs"""
    weight: float
    """its share of what is read, as that of all weights, however many pictures it has; all sets have one, or none"""
    loss_weight: float
    """what the losses of its examples are multiplied by; the loss of a batch stays the mean over its examples"""
    timesteps: list[int]
    """[low, high): the noise levels that it is trained at, as far as the run's law of them goes there"""
    ucg_rate: float
    """share of its captions that is dropped whole, in place of the model's `ucg_rate`"""
    kind: Literal["train", "class", "prior"]
    """`class`: regularisation pictures, which have a weight and no repeats; `prior`: their target is what the base
    predicts without the adapters that train"""
    resolutions: list[int]
    """those of `data.params.buckets` at which it is read; by default all"""
    from_step: int
    """the first optimizer step that reads it, 0"""
    until_step: int
    """the first one that does not read it any more"""


class SetsRecipe(TypedDict, total=False):
    """Several sets in the place of one recipe: NAME -> its own, and what an epoch is where they have weights."""

    sets: Required[Mapping[str, SetRecipe]]
    epoch: str
    dataloader_params: Mapping[str, Any]


@dataclass(frozen=True)
class SetSettings:
    """What one `SetRecipe` says, checked."""

    name: str
    recipe: Recipe
    repeats: float | None = None
    weight: float | None = None
    loss_weight: float = 1.0
    timesteps: tuple[int, int] | None = None
    ucg_rate: float | None = None
    kind: str = "train"
    resolutions: tuple[int, ...] | None = None
    from_step: int = 0
    until_step: int | None = None

    @classmethod
    def read(cls, name: str, given: Mapping[str, Any]) -> "SetSettings":
        """From a config. Raises `Fault` CFG03 for an unknown key, CFG08 for a value that makes no sense."""
        where = f"{WHERE}.{name}"
        if not _NAME.fullmatch(name):
            why = "letters, digits, - and _, a letter or digit first: it stands in file names and in settings"
            raise Fault("CFG08", f"{name!r} cannot be the name of a set", where=WHERE, why=f"it takes {why}")
        known = [field.name for field in fields(cls) if field.name not in ("name", "recipe")]
        said = {key: value for key, value in given.items() if key not in ("target", "params") and value is not None}
        for key in said:
            if key not in known:
                why = f"a set takes: target, params, {', '.join(known)}"
                raise Fault("CFG03", f"unknown setting {where}.{key}", where=where, why=why)
        if not given.get("target"):
            raise Fault("CFG03", f"{where} has no target", where=where, fix=f"{where}.target=lun.data.local.Local")
        for key in ("timesteps", "resolutions"):
            if key in said:
                said[key] = tuple(said[key])
        recipe = {"target": given["target"], "params": given.get("params") or {}}
        return cls(name, recipe, **said)

    def __post_init__(self) -> None:
        if self.repeats is not None and self.weight is not None:
            raise Fault(
                "CFG08",
                f"{self.where} has repeats and a weight",
                where=self.where,
                why="repeats say how often its pictures come in an epoch, a weight says its share of what is read",
                fix=f"~{self.where}.repeats or ~{self.where}.weight",
            )
        if self.kind == "class" and self.repeats is not None:
            why = "how often regularisation pictures come should not depend on how many there are"
            fix = f"~{self.where}.repeats {self.where}.weight=1, and a weight for each other set"
            raise Fault("CFG08", f"{self.where} of kind class has repeats", where=self.where, why=why, fix=fix)
        low, high = self.timesteps if self.timesteps and len(self.timesteps) == 2 else (0, 1)
        known_range = self.timesteps is None or len(self.timesteps) == 2
        allowed = [
            (_is_finite(self.repeats) and self.repeats != 0, "repeats", "a number above 0"),
            (
                _is_finite(self.weight) and self.weight != 0,
                "weight",
                "a number above 0; a set that is null is left out",
            ),
            (_is_finite(self.loss_weight), "loss_weight", "a number of at least 0"),
            (known_range and 0 <= low < high, "timesteps", "[low, high), the first one and the first one beyond"),
            (_is_finite(self.ucg_rate) and (self.ucg_rate or 0) <= 1, "ucg_rate", "a share, 0 to 1"),
            (self.kind in KINDS, "kind", ", ".join(KINDS)),
            (self._resolutions_are_sound(), "resolutions", "one of data.params.buckets.resolutions or more"),
            (self.from_step >= 0, "from_step", "a step of at least 0"),
            (self.until_step is None or self.until_step > self.from_step, "until_step", "a step after from_step"),
        ]
        for holds, name, kind in allowed:
            if not holds:
                what = f"{self.where}.{name} cannot be {getattr(self, name)!r}"
                raise Fault("CFG08", what, where=f"{self.where}.{name}", why=f"it takes {kind}")

    def _resolutions_are_sound(self) -> bool:
        sides = self.resolutions
        return sides is None or (0 < len(sides) == len(set(sides)) and min(sides) > 0)

    @property
    def where(self) -> str:
        return f"{WHERE}.{self.name}"

    @property
    def for_model(self) -> list[str]:
        """The keys by which it asks something of the model."""
        asked = {
            "loss_weight": self.loss_weight != 1,
            "timesteps": self.timesteps,
            "ucg_rate": self.ucg_rate is not None,
        }
        asked["kind"] = self.kind == "prior"
        return [key for key, is_asked in asked.items() if is_asked]

    def read_at(self, step: int) -> bool:
        """Whether the step after `step` steps reads it."""
        return self.from_step <= step and (self.until_step is None or step < self.until_step)

    def law(self) -> str:
        """How often it is read, in a form that a resumed run compares."""
        often = f"weight {self.weight:g}" if self.weight is not None else f"repeats {self.repeats or 1:g}"
        return often + f", steps {self.from_step} to {'end' if self.until_step is None else self.until_step}"


@dataclass(frozen=True)
class MixSettings:
    """All sets of a run. `epoch`: with weights, `sum` or the set that an epoch reads once."""

    sets: tuple[SetSettings, ...]
    epoch: str = SUM

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "MixSettings":
        """From `data.params.train`. A set that is null is left out, as a layer of a config can only do so."""
        if "target" in given or "params" in given:
            raise Fault(
                "CFG08",
                "data.params.train has sets and a recipe of its own",
                where="data.params.train",
                why="either one recipe (target and params) or several sets, each with a recipe",
                fix="~data.params.train.sets, or ~data.params.train.target and ~data.params.train.params",
            )
        named = given["sets"] if isinstance(given["sets"], Mapping) else {}
        sets = tuple(SetSettings.read(str(name), one) for name, one in named.items() if one is not None)
        return cls(sets, given.get("epoch", SUM))

    def __post_init__(self) -> None:
        if not self.sets:
            raise Fault("CFG08", f"{WHERE} names no set", fix=f"{WHERE}: {{NAME: {{target: ..., params: ...}}}}")
        weighted = [one.name for one in self.sets if one.weight is not None]
        if 0 < len(weighted) < len(self.sets):
            others = [one.name for one in self.sets if one.weight is None]
            raise Fault(
                "CFG08",
                f"{', '.join(weighted)}: a weight; {', '.join(others)}: none",
                where=WHERE,
                why="shares can only be computed of sets that all have a weight",
                fix=" ".join(f"{WHERE}.{name}.weight=1" for name in others),
            )
        if self.epoch != SUM and (not weighted or self.epoch not in weighted):
            what = f"data.params.train.epoch cannot be {self.epoch!r}"
            kinds = ", ".join([SUM, *weighted]) if weighted else f"{SUM}; without weights an epoch follows from repeats"
            raise Fault("CFG08", what, where="data.params.train.epoch", why=f"it takes {kinds}")
        self._require_sets_at_all_steps()

    def _require_sets_at_all_steps(self) -> None:
        for step in (0, *self.changes):
            if not any(one.read_at(step) for one in self.sets):
                what = f"no set is read at step {step}"
                raise Fault("CFG08", what, where=WHERE, why="from_step and until_step leave none", fix="without them")

    @property
    def changes(self) -> list[int]:
        """The steps from which on other sets are read than before."""
        ends = {one.until_step for one in self.sets if one.until_step is not None}
        return sorted(({one.from_step for one in self.sets} | ends) - {0})

    def repeats_at(self, step: int, examples: Mapping[str, int]) -> dict[str, Fraction]:
        """How often each set that is read after `step` steps is read in one epoch, of so many `examples` each."""
        active = [one for one in self.sets if one.read_at(step)]
        if active[0].weight is None:
            return {one.name: _exact(one.repeats or 1) for one in active}
        weights = {one.name: _exact(one.weight or 1) for one in active}
        whole = sum(weights.values(), Fraction(0))
        if self.epoch in weights:
            epoch = Fraction(examples[self.epoch]) * whole / weights[self.epoch]
        else:
            epoch = Fraction(sum(examples[name] for name in weights))
        return {name: epoch * weight / whole / examples[name] for name, weight in weights.items()}


def is_sets(recipe: Any) -> bool:
    """Whether `data.params.train` names several sets."""
    return isinstance(recipe, Mapping) and "sets" in recipe


def _is_finite(number: float | None) -> bool:
    """Whether it is one of at least 0, where there is any; true and false are none."""
    return number is None or (not isinstance(number, bool) and 0 <= number < math.inf)


def _exact(number: float) -> Fraction:
    """A number as it was written: 0.1 is a tenth."""
    return Fraction(str(number))
