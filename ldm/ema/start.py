"""When an EMA begins and how often it takes weights in, as a configuration says it."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ldm.ema.profiles import ConstantDecay, HalfLife, Profile, decay_of_span, largest_interval
from ldm.errors import Fault

log = logging.getLogger(__name__)

WHERE = "model.params.ema_config"
LAWS = ("profile", "span", "half_life_steps", "half_life_images")
"""Parameters that give another law than a constant decay."""
LARGEST_ERROR = 0.03
"""The share of its distance to the weights by which an interval may move an average without a word about it."""


def start_step(start: int | str, total_steps: int | None) -> int:
    """The step of `start`: a number of steps, or a share of the run such as "3.5%" counted from its end.

    "3.5%" averages over the last 3.5 % of `total_steps`. `Fault` CFG08 for anything else.
    """
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        return start
    share = _share(start)
    if share is None:
        raise Fault(
            "CFG08",
            f"an EMA cannot start at {start!r}",
            where=f"{WHERE}.params.start",
            fix='start: 5000 (a step), or start: "3.5%" (over the last 3.5 % of the run)',
        )
    if total_steps is None:
        raise Fault(
            "CFG08",
            f"start: {start!r} is a share of a run whose length is not known",
            where=f"{WHERE}.params.start",
            fix="lightning.trainer.max_steps, or a step instead of a share",
        )
    return total_steps - math.ceil(total_steps * share)


def _share(start: object) -> float | None:
    text = start.strip() if isinstance(start, str) else ""
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        return None
    return percent / 100 if text.endswith("%") and 0 < percent <= 100 else None


def warn_if_short(profile: Profile, start: int, total_steps: int | None) -> None:
    """Warn where an EMA that starts late stays close to where it starts: the rest is shorter than 5 / (1 - decay)."""
    if not start or total_steps is None or not isinstance(profile, ConstantDecay | HalfLife):
        return
    rest = total_steps - start
    if rest <= 0:
        log.warning("the EMA would start at step %d, the run ends at step %d: there will be none", start, total_steps)
    elif rest < 5 / (1 - profile.decay):
        log.warning(
            "the EMA starts %d steps before the end, but a decay of %.6g needs %d to forget where it started: it will "
            "%s; start earlier, or use a power law (profile: {target: ldm.ema.profiles.PowerDecay})",
            rest,
            profile.decay,
            math.ceil(5 / (1 - profile.decay)),
            "never leave its warm-up" if getattr(profile, "warmup", False) else "mostly be the weights of that step",
        )


def law_of(
    profile: Profile | None,
    ordinary: ConstantDecay,
    span: float | None,
    half_life_steps: float | None,
    half_life_images: float | None,
    examples_per_step: int | None,
) -> Profile:
    """The one law that is given in any of the ways, `ordinary` where there is none; `Fault` CFG08 for two of them."""
    ways = {"profile": profile, "span": span} | {
        "half_life_steps": half_life_steps,
        "half_life_images": half_life_images,
    }
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        what = f"the law of the EMA is given by {' and by '.join(given)}"
        raise Fault("CFG08", what, where=WHERE, fix="leave out all but one of them")
    if span is not None:
        return ConstantDecay(decay_of_span(span), ordinary.warmup)
    return profile or half_life(half_life_steps, half_life_images, examples_per_step) or ordinary


def refuse_beside_law(recipe: Mapping[str, Any]) -> None:
    """Raise `Fault` CFG08 where an EMA's recipe gives a law, beside which a decay says nothing."""
    given = [name for name in LAWS if (recipe.get("params") or {}).get(name) is not None]
    if given:
        what = f"the law of the EMA is given by ema_decay and by ema_config.params.{given[0]}"
        raise Fault("CFG08", what, where="model.params.ema_decay", fix="model.params.ema_decay=null")


def half_life(steps: float | None, images: float | None, examples_per_step: int | None) -> HalfLife | None:
    """The law of a half-life in optimizer steps or in images; None where neither is given."""
    if images is not None:
        if examples_per_step is None:
            raise Fault("CFG08", "a half-life in images needs the size of a step", where=WHERE, fix="half_life_steps")
        if examples_per_step < 1:
            raise ValueError(f"a step has at least 1 example, got {examples_per_step}")
        steps = images / examples_per_step
    if steps is None:
        return None
    law = HalfLife(steps)
    log.info("the EMA's half-life is %.6g steps, a decay of %.6g per step", steps, law.decay)
    return law


def settle_interval(update_every: int | str, profiles: Sequence[Profile], steps: int | None) -> int:
    """How often to average: as given, or for "auto" the longest interval that is harmless for all `profiles`."""
    if update_every == "auto":
        interval = min(largest_interval(profile, steps) for profile in profiles)
        error = max(profile.interval_error(interval, steps or math.inf) for profile in profiles)
        log.info(
            "the EMA is updated every %d steps (auto); against every step that moves it by about %s of its "
            "distance to the weights",
            interval,
            _percent(error),
        )
        return interval
    if not isinstance(update_every, int) or isinstance(update_every, bool) or update_every < 1:
        raise ValueError(f"update_every must be 'auto' or a number of steps from 1 on, got {update_every!r}")
    warn_if_wide(update_every, profiles, steps)
    return update_every


def warn_if_wide(interval: int, profiles: Sequence[Profile], steps: int | None) -> None:
    """Say what an interval costs against an update every step where that is much, and which interval would be harmless.

    For a constant decay d that is (N - 1)(1 - d) / 2 of the average's distance to the weights.
    """
    length = steps or math.inf
    error = max(profile.interval_error(interval, length) for profile in profiles)
    if error <= LARGEST_ERROR:
        return
    harmless = min(profile.interval_bound(length) for profile in profiles)
    log.info(
        "note: update_every: %d moves the EMA by about %s of its distance to the weights, against an update every "
        "step; at most %d would be harmless",
        interval,
        _percent(error),
        max(1, math.floor(harmless * (1 + 1e-9))),
    )


def usable(device: str, threads: int) -> tuple[str, int]:
    """Both as they are; `Fault` CFG08 for a device of no known kind, DEV01 for one that is not there."""
    where = f"{WHERE}.params.device"
    kind, _, number = str(device).partition(":")
    if kind not in ("cpu", "cuda") or not (number or "0").isdecimal():
        what = f"averaged weights cannot lie on {device!r}"
        raise Fault("CFG08", what, where=where, fix="device: cpu (main memory), or device: cuda (NVIDIA and AMD)")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        what = f"averaged weights are to lie on {device}, but there are {torch.cuda.device_count()} such devices"
        raise Fault("DEV01", what, where=where, fix="device: cpu, which costs a GPU neither memory nor time")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    return device, threads


def _percent(share: float) -> str:
    """Two digits below 100 %, and whole percents from there on."""
    return f"{100 * share:{'.2g' if share < 0.995 else '.0f'}} %"
