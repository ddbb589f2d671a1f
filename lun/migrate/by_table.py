"""What settings of another program say, by its table: of a run one by one, and of one set together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lun.config.reading.yaml_tree import parse_value
from lun.migrate.foreign import Taken
from lun.other_trainers.counterparts import TRAIN, Counterpart

_FLAGS = {
    "--init-from": "model.params.ckpt_path",
    "--data_root": "data.params.train.params.data_root",
    "--seed": "seed",
    "--scale_lr": "model.scale_lr",
}
"""Options of `main.py` that are settings as well; those of the trainer are below `lightning.trainer`."""
_TYPED = ("--logdir", "--name")
"""Options that no setting stands for: they go into the command."""
_TEXTS = ("--init-from", "--data_root")


class Meaning(NamedTuple):
    """What stands for one setting with one value.

    known     its row, that of the value where values have their own
    settings  (path, value)
    command   words of `main.py` that no setting stands for
    """

    known: Counterpart
    settings: list[tuple[str, Any]]
    command: list[str]


def meaning(row: Counterpart, value: Any) -> Meaning:
    """What a row says of a value; True stands for an option without one."""
    text = None if value is True else text_of(value)
    meant = Meaning(row.of("true" if value is True else text), [], [])
    words = iter(() if meant.known.kind == "none" else meant.known.typed(text))
    for word in words:
        if word in _TYPED:
            meant.command.extend([word, next(words)])
        elif word.startswith("--"):
            given = next(words)
            path = _FLAGS.get(word, f"lightning.trainer.{word.lstrip('-')}")
            meant.settings.append((path, given if word in _TEXTS else plain(given)))
        else:
            path, _, given = word.partition("=")
            meant.settings.append((path, plain(given)))
    return meant


def said_by(taken: Taken, rows: Mapping[str, Counterpart]) -> tuple[dict[str, Any], list[str]]:
    """(settings by path, lines on what has no equal) of all that is on, was not taken yet and has a row.

    The params of the set stand together below `TRAIN`, whichever of several sets it is. Overlays are not named:
    what they say of sets is in the settings.
    """
    said: dict[str, Any] = {}
    notes: list[str] = []
    for name, value in taken.rest().items():
        if name not in rows:
            continue
        taken.names.add(name)
        known, settings, _ = meaning(rows[name], value)
        if known.kind in ("none", "changed") or (known.kind == "same" and not known.words):
            notes.append(f"{taken.where}.{name}: {value!r}; {known.say}")
        for path, given in settings:
            if path.startswith(f"{TRAIN}."):
                merged(said.setdefault(TRAIN, {}), path.removeprefix(f"{TRAIN}."), given)
            else:
                merged(said, path, given)
    return said, notes


def merged(into: dict[str, Any], key: str, value: Any) -> None:
    """Lay a value over what stands at a key; maps merge."""
    if isinstance(value, Mapping) and isinstance(into.get(key), dict):
        for inner, one in value.items():
            merged(into[key], inner, one)
    else:
        into[key] = value


def plain(text: str) -> Any:
    """A value that is written as YAML."""
    return parse_value(text, "").plain()


def text_of(value: Any) -> str:
    """A value as a command line has it: several words with commas."""
    return ",".join(text_of(one) for one in value) if isinstance(value, list) else str(value)
