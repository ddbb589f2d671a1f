"""Rules for what trains and how: settings for parameters by name, as a configuration gives them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import translate
from typing import Any, NamedTuple

from ldm.admission import configurable
from ldm.errors import Fault
from ldm.training.schedule import with_horizon
from ldm.util import Recipe, is_recipe

WHERE = "model.params.training_config.params.rules"
OURS = ("train", "lr", "until", "schedule")
"""Settings that are carried out here; all others are the optimizer's own, for a group of it."""

Settings = Mapping[str, Any]


class Multiple(NamedTuple):
    """A learning rate given as a multiple of the run's."""

    factor: float


@dataclass(frozen=True)
class Rule:
    """Settings for the parameters that `selects` picks by name.

    name      by which it is known in messages, in the plan and in logged rates
    settings  `train` (bool), `lr` (a rate or a `Multiple`), `until` (a step, or as a float a share of the run),
              `schedule` (a recipe, or None), and whatever the optimizer takes for a group
    where     the setting of the configuration that asks for it, so that it is refused where it has no effect; "" for a
              default
    axes      how many axes a parameter has that it picks; empty where any number will do
    """

    name: str
    selects: Callable[[str], bool]
    settings: Settings
    where: str = ""
    axes: tuple[int, ...] = ()

    def with_horizon(self, max_steps: int) -> "Rule":
        """The same, with the length of the run as the horizon of its schedule. Raises as `schedule.with_horizon`."""
        if not self.settings.get("schedule"):
            return self
        schedule = with_horizon(self.settings["schedule"], max_steps, f"{self.where}.schedule")
        return replace(self, settings={**self.settings, "schedule": schedule})


@configurable
class Rules:
    """Rules for parameters by name, first to last; for each setting the first rule that gives it to a parameter holds.

    A rule is a map: `match`, a glob or several over names such as `unet.down_blocks.0.attentions.0.proj_in.weight`
    (`*` crosses dots; `text_encoder.`, `text_encoder_2.`; of an autoencoder `encoder.`, `decoder.`), if it must be
    `ndim`, the number of axes of a parameter or several (2 for matrices, 4 for convolutions), and settings:

    train   false freezes, true trains what would not train
    lr      a learning rate, or a multiple (`0.5x`) of the run's; 0 freezes
    until   a step, or a share of the run (`50%`), from which on the learning rate is 0
    schedule  a recipe as of `scheduler_config`, which takes the place of that one; null for a constant rate
    others  the optimizer's own for a group: `weight_decay`, `betas`, ...

    rules   {name: rule}; null instead of a rule removes that of an earlier file
    """

    def __init__(self, rules: Mapping[str, Any]) -> None:  # so annotated, schedules stay recipes
        self.rules = [_parsed(name, rule) for name, rule in rules.items() if rule is not None]


def matching(*patterns: str) -> Callable[[str], bool]:
    """Whether a name fits one of the globs."""
    pattern = re.compile("|".join(map(translate, patterns)))
    return lambda name: pattern.match(name) is not None


def recipe_with_horizon(recipe: Recipe, max_steps: int) -> Recipe:
    """A recipe of `Rules`, the schedules in it with a horizon as of `Rule.with_horizon`."""
    params = dict(recipe.get("params") or {})
    params["rules"] = dict(params.get("rules") or {})
    for name, rule in params["rules"].items():
        if rule and rule.get("schedule"):
            settled = with_horizon(rule["schedule"], max_steps, f"{WHERE}.{name}.schedule")
            params["rules"][name] = {**rule, "schedule": settled}
    return {**recipe, "params": params}


def text_encoder_rules(trains: bool, multiple: float) -> list[Rule]:
    """What `cond_stage_trainable` and `cond_stage_lr_multiple` mean: trained, the encoder is a group of its own."""
    which, params = matching("text_encoder.*", "text_encoder_*"), "model.params.cond_stage_"
    if not trains:
        return [Rule("text_encoder", which, {"train": False})]
    asked = f"{params}lr_multiple" if multiple != 1 else ""
    rate = Rule("text_encoder", which, {"lr": Multiple(multiple)}, asked)
    return [Rule("cond_stage_trainable", which, {"train": True}, f"{params}trainable"), rate]


def _parsed(name: str, rule: Any) -> Rule:
    """Raises `Fault` CFG03 for what is no rule."""
    where = f"{WHERE}.{name}"
    if not isinstance(rule, Mapping) or "match" not in rule:
        fix = f"{where}.match='unet.*'"
        raise Fault("CFG03", f"{where} is no rule", where=where, why="a rule is a map with `match`", fix=fix)
    settings = {key: value for key, value in rule.items() if key not in ("match", "ndim")}
    if not settings:
        raise _refused(where, f"the rule {name} says nothing of what it matches", "train: false, lr: 0.5x, ...")
    if not isinstance(settings.get("train", True), bool):
        raise _refused(f"{where}.train", f"expected true or false, got {settings['train']!r}", "true or false")
    if "lr" in settings:
        settings["lr"] = _learning_rate(settings["lr"], f"{where}.lr")
    if "until" in settings:
        settings["until"] = _until(settings["until"], f"{where}.until")
    if settings.get("schedule") is not None and not is_recipe(settings["schedule"]):
        what = f"expected a schedule as a recipe, got {settings['schedule']!r}"
        raise _refused(f"{where}.schedule", what, "schedule: {target: ldm.lr_scheduler.WarmupConstant}, or null")
    if settings.get("lr") in (0.0, Multiple(0.0)):  # a group at 0 would pay for gradients and states all the same
        if len(settings) > 1:
            raise _refused(where, f"the rule {name} freezes, by lr: 0, what it gives settings to", "train: false alone")
        settings = {"train": False}
    axes = _axes(rule["ndim"], f"{where}.ndim") if "ndim" in rule else ()
    return Rule(name, selection(rule["match"], f"{where}.match"), settings, where, axes)


def selection(match: Any, where: str) -> Callable[[str], bool]:
    """Whether a name fits `match`, a glob or a list of them. Raises `Fault` CFG03 for anything else."""
    patterns = [match] if isinstance(match, str) else match
    if not isinstance(patterns, list) or not patterns or not all(isinstance(one, str) for one in patterns):
        raise _refused(where, f"expected a glob or a list of them, got {match!r}", f"{where}='unet.*attn2*'")
    return matching(*patterns)


def _axes(ndim: Any, where: str) -> tuple[int, ...]:
    numbers = ndim if isinstance(ndim, list) else [ndim]
    if not numbers or not all(type(one) is int and one >= 0 for one in numbers):
        raise _refused(where, f"expected a number of axes or a list of them, got {ndim!r}", "2, or [2, 4]")
    return tuple(numbers)


def _learning_rate(value: Any, where: str) -> float | Multiple:
    text = str(value)
    try:
        number = float(text.removesuffix("x"))
    except ValueError:
        number = -1.0
    if isinstance(value, bool) or not 0 <= number < float("inf"):
        raise _refused(where, f"expected a rate or a multiple of the run's, got {value!r}", "1.0e-05, or 0.5x")
    return Multiple(number) if text.endswith("x") else number


def _until(value: Any, where: str) -> int | float:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?%", value) and 0 < float(value[:-1]) < 100:
        return float(value[:-1]) / 100
    raise _refused(where, f"expected a step or a share of the run, got {value!r}", "1000, or 50%")


def _refused(where: str, what: str, fix: str) -> Fault:
    return Fault("CFG03", what, where=where, fix=fix)
