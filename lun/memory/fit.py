"""`--fit`: settings by which a run fits into a card's memory, found by predicting it, with the same pictures a step."""

from __future__ import annotations

import importlib.util
import inspect
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.shell import quoted
from lun.cli.arguments import Arguments
from lun.memory.forecast import Forecast, forecast
from lun.memory.named_callbacks import fuses, replays, uncounted
from lun.plan.fixed_memory import GIB, is_spread
from lun.plan.memory_room import Room
from lun.run.settings import Settings
from lun.strategies.execution import device_of

log = logging.getLogger(__name__)

RESERVE = GIB
"""Bytes of a card besides tensors: the driver's context, libraries' workspaces, what the allocator rounds up."""
BATCH, ACCUMULATE = "data.params.batch_size", "lightning.trainer.accumulate_grad_batches"
NETWORK, OPTIMIZER = "model.params.unet_config", "model.params.optimizer_config"
ACCELERATOR = "lightning.trainer.accelerator"
PICTURES = "lightning.callbacks.image_logger.params.max_images"
CHECKPOINTING = ("gradient_checkpointing", "use_checkpoint")
LARGE_STATES = ("torch.optim.AdamW", "torch.optim.Adam")
EIGHT_BIT, ADAFACTOR = "bitsandbytes.optim.AdamW8bit", "ldm.training.matrices.Adafactor"

Changes = Mapping[str, Any]
"""Setting -> value."""


@dataclass(frozen=True)
class Fitting:
    """Settings that make a run fit, and the peak in bytes that is predicted with them."""

    changes: Changes
    peak: int

    @property
    def words(self) -> list[str]:
        """As settings of the command line."""
        return [f"{path}={_written_out(value)}" for path, value in self.changes.items()]


@dataclass(frozen=True)
class WayToCompute:
    """One way to compute: what it changes, and the fewest pictures at a time for which it is worth it."""

    changes: Changes
    least: int = 1


def fitted(arguments: Arguments, settings: Settings) -> Arguments:
    """The command line with the settings that were chosen, which are logged.

    Raises `Fault` DEV02 where nothing fits, CFG03 for a model whose memory is not predicted, CLI03 where no memory is
    found and CLI02 where a strategy spreads it.
    """
    if is_spread(settings.trainer()):
        what = "--fit has no effect beside a strategy that spreads weights"
        why = "it counts what one device holds, and this strategy spreads weights over all"
        raise Fault("CLI02", what, why=why, fix="leave out --fit")
    config, total = _with_room(settings.config, arguments.fit or 0)
    log.info("fit      predicting steps for %.1f GiB: each takes seconds, of large networks a minute", total / GIB)
    found = fit(config, total - (0 if _on_cpu(config) else RESERVE), forecast, total)
    chosen = quoted(*found.words) if found.words else "as written"
    log.info("fit      %.1f of %.1f GiB predicted: %s", found.peak / GIB, total / GIB, chosen)
    if besides := uncounted(config):
        log.info("fit      %s", besides)
    return replace(arguments, overrides=(*arguments.overrides, *found.words))


def _with_room(config: dict[str, Any], asked: float) -> tuple[dict[str, Any], int]:
    """The configuration for a card, or for a CPU where no memory is `asked` for and there is none; and the bytes."""
    kind = device_of(get(config, "lightning.trainer") or {})
    if asked:
        return config, round(asked * GIB)
    if (room := Room.found(kind)) is None:
        raise Fault("CLI03", f"--fit needs a number here: the memory of {kind} is not known", fix="--fit 12")
    return (changed(config, {ACCELERATOR: "cpu"}) if kind == "cpu" else config), room.total


def _on_cpu(config: Mapping[str, Any]) -> bool:
    return bool(get(config, ACCELERATOR) == "cpu")


Predict = Callable[[dict[str, Any]], Forecast]


def fit(config: Mapping[str, Any], limit: int, predict: Predict, total: int) -> Fitting:
    """The first of the variants that fits into `limit` bytes, with as many pictures at a time as fit.

    total  what the card has, as it was given. Raises `Fault` DEV02
    """
    search = _Search(config, limit, predict)
    tried = []
    for variant in variants(config):
        micros = [micro for micro in micro_batches(config) if micro >= variant.least]
        few = search.smallest(variant.changes, micros[0])
        if few.peak <= limit:
            return search.largest(few, micros)
        tried.append(few)
    raise too_little(min(tried, key=lambda one: one.peak), total)


@dataclass(frozen=True)
class _Search:
    """A configuration whose memory is predicted with other settings, until it is at most `limit` bytes."""

    config: Mapping[str, Any]
    limit: int
    predict: Predict

    def smallest(self, changes: Changes, micro: int) -> Fitting:
        """With so many pictures at a time; and with one sample at a time where those take most, and too much."""
        batch = _batch(self.config, micro)
        found = self.predicted({**changes, **batch})
        if found.peak > self.limit and found.samples == found.peak and (get(self.config, PICTURES) or 1) > 1:
            changes = {**changes, PICTURES: 1}
            found = self.predicted({**changes, **batch})
        return Fitting({**changes, **batch}, found.peak)

    def largest(self, few: Fitting, micros: Sequence[int]) -> Fitting:
        """With as many pictures at a time as fit, of which the fewest are known to."""
        best, low, high = few, 0, len(micros) - 1
        place = high
        besides = {path: value for path, value in few.changes.items() if path not in (BATCH, ACCUMULATE)}
        while low < high:
            tried = {**besides, **_batch(self.config, micros[place])}
            if (peak := self.predicted(tried).peak) <= self.limit:
                best, low = Fitting(tried, peak), place
            else:
                high = place - 1
            place = (low + high + 1) // 2
        return best

    def predicted(self, changes: Changes) -> Forecast:
        found = self.predict(changed(self.config, changes))
        log.info("fit      %.1f GiB with %s", found.peak / GIB, quoted(*Fitting(changes, 0).words) or "what is written")
        return found


def _written_out(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _batch(config: Mapping[str, Any], micro: int) -> Changes:
    """So many pictures at a time, as many a step as before; nothing where that is what is written."""
    batch, accumulate = _written(config)
    return {} if micro == batch else {BATCH: micro, ACCUMULATE: batch * accumulate // micro}


def micro_batches(config: Mapping[str, Any]) -> list[int]:
    """How many pictures at a time make a step whole, rising.

    Steps within the backward pass and CUDA graphs do not accumulate.
    """
    batch, accumulate = _written(config)
    images = batch * accumulate
    whole = fuses(config) or replays(config)
    return [images] if whole else [micro for micro in range(1, images + 1) if images % micro == 0]


def _written(config: Mapping[str, Any]) -> tuple[int, int]:
    return get(config, BATCH) or 1, get(config, ACCUMULATE) or 1


def variants(config: Mapping[str, Any]) -> Iterator[WayToCompute]:
    """From the fastest to that which takes least: activations kept, as written, computed twice, small states.

    Where CUDA graphs replay blocks, all activations are kept.
    """
    switch, replayed = checkpointing(config), replays(config)
    twice = bool(switch and get(config, switch))
    kept: Changes = {switch: False} if switch and twice else {}
    if kept:
        yield WayToCompute(kept, least=_written(config)[0])
    changes = kept if replayed else {}
    if not changes:
        yield WayToCompute({})
    if switch and not (twice or replayed):
        changes = {switch: True}
        yield WayToCompute(changes)
    if smaller := small_states(config):
        yield WayToCompute({**changes, **smaller})


def checkpointing(config: Mapping[str, Any]) -> str | None:
    """The setting by which the network computes activations twice; None for one without."""
    target = get(config, f"{NETWORK}.target")
    names = inspect.signature(admitted(target)).parameters if target else ()
    return next((f"{NETWORK}.params.{name}" for name in CHECKPOINTING if name in names), None)


def small_states(config: Mapping[str, Any]) -> Changes:
    """An optimizer of small states in the place of Adam: that of 8 bits where its package is there, for a card."""
    recipe = get(config, OPTIMIZER) or {"target": LARGE_STATES[0]}
    if recipe["target"] not in LARGE_STATES:
        return {}
    eight = not _on_cpu(config) and importlib.util.find_spec("bitsandbytes") is not None
    kept = ("betas", "weight_decay") if eight else ("weight_decay",)
    params = {name: value for name, value in (recipe.get("params") or {}).items() if name in kept}
    named = {f"{OPTIMIZER}.params.{name}": value for name, value in params.items()}
    return {f"{OPTIMIZER}.target": EIGHT_BIT if eight else ADAFACTOR} | named


def get(config: Any, path: str) -> Any:
    """The value of a setting; None where there is none."""
    for name in path.split("."):
        config = config.get(name) if isinstance(config, Mapping) else None
    return config


def changed(config: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """The configuration with other values; another target has none of the old one's params, as when YAML is merged."""
    made = dict(config)
    for path, value in changes.items():
        *folders, last = path.split(".")
        inner = made
        for name in folders:
            inner[name] = dict(inner.get(name) or {})
            inner = inner[name]
        if last == "target" and inner.get(last) != value:
            inner.clear()
        inner[last] = value
    return made


def too_little(least: Fitting, total: int) -> Fault:
    needed = -(-(least.peak + RESERVE) // (GIB // 2)) / 2
    return Fault(
        "DEV02",
        f"this run does not fit into {total / GIB:.1f} GiB",
        where="--fit",
        why=f"the least that was found is {least.peak / GIB:.1f} GiB, and about 1 more for driver and allocator: "
        f"{quoted(*least.words) or 'as written'}",
        fix=f"--fit {quoted(f'{needed:g}')}, or train less of it: add lora after --base",
    )
