"""Options of `sweep` that only a metric of drawn pictures takes: refused beside one of the validation."""

import argparse
from typing import Any

from ldm.errors import Fault
from lun.features.score_names import SCORES, Score
from lun.measure.arguments import add_measures, require_most
from lun.sample.arguments import add_machine, add_pictures, guidance


def add_picture_options(parser: argparse.ArgumentParser) -> None:
    """Add them, None where the line does not say them; `settle_picture_options` puts their defaults."""
    _add(parser)
    parser.set_defaults(**dict.fromkeys(_defaults()))


def settle_picture_options(asked: argparse.Namespace) -> None:
    """Put the defaults. Raises `Fault` CLI03 for what has no effect on the metric, and for what the metric lacks."""
    defaults = _defaults()
    said = [name for name in defaults if getattr(asked, name) is not None]
    score = SCORES.get(asked.metric or "")
    if score is None and said:
        what = f"{_flag(said[0])} has no effect: the validation draws no pictures"
        raise Fault("CLI03", what, where=_flag(said[0]), fix="--metric clip_score, or leave it out")
    for name in defaults.keys() - {*said}:
        setattr(asked, name, defaults[name])
    if score is not None:
        _require(asked, score, said)


def _require(asked: argparse.Namespace, score: Score, said: list[str]) -> None:
    if getattr(asked, score.encoder) is None:
        flag = _flag(score.encoder)
        raise Fault("CLI03", f"{asked.metric} takes an encoder", where=flag, fix=f"{flag} FOLDER")
    if asked.data is None:
        if score.of_data:
            raise Fault("CLI03", f"{asked.metric} compares pictures with data", where="--data", fix="--data DIR")
        if idle := [_flag(name) for name in ("dino", "features", "most") if name in said]:
            what = f"{idle[0]} has no effect: there is no data to compare with"
            raise Fault("CLI03", what, where=idle[0], fix="--data DIR, or leave it out")
    require_most(asked.most)


def _add(parser: Any) -> None:
    measured = parser.add_argument_group(f"metrics of drawn pictures: {', '.join(SCORES)}")
    add_measures(measured)
    measured.add_argument("--data", metavar="DIR", help="pictures that they are compared with")
    drawn = parser.add_argument_group("how these are drawn, the same for each average (a prompt's own settings win)")
    drawn.add_argument("--prompts", metavar="FILE", help="YAML, or a prompt a line (the run's own)")
    add_pictures(drawn)
    drawn.add_argument("--guidance", type=guidance, help="classifier-free guidance, 1 is none (the run's, else 7.5)")
    add_machine(drawn)


def _defaults() -> dict[str, Any]:
    """By the names of the parsed options."""
    parser = argparse.ArgumentParser(add_help=False)
    _add(parser)
    return vars(parser.parse_args([]))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
