"""Which runs a sweep consists of: the product of the values on its command line, or the lines of a file."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from ldm.errors import Fault
from ldm.plain import read_plain_text
from lun.cli.arguments import Arguments
from lun.cli.parser import parse
from lun.cli.taken_flags import require_taken
from lun.sweep.arguments import MOST, NAME
from lun.sweep.ranges import NumberRange, range_of

PROGRAM = re.compile(r"(?:\S*/)?(?:main\.py|lun-train)")
FRACTION = re.compile(r"-?(\d+)\.(\d+)(?:[eE][-+]?\d+)?")
OPEN, CLOSED = "[{(", "]})"


@dataclass(frozen=True)
class Trial:
    """One run: the words for `main.py` without `-t`, and the values that set it apart from others.

    where   the line that it is written at, for messages
    """

    words: tuple[str, ...]
    values: Mapping[str, str] = field(default_factory=dict, compare=False)
    where: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """Its folder: the values, numbers to four digits, as far as a name may be long, and a digest of its words."""
        said = ",".join(f"{key.rpartition('.')[2]}={_short(value)}" for key, value in self.values.items())
        digest = hashlib.sha256("\0".join(self.words).encode()).hexdigest()[:8]
        return "-".join(part for part in (re.sub(r"[^\w.,=+-]+", "_", said)[:80], digest) if part)


@dataclass(frozen=True)
class VariedSetting:
    """A setting that differs between trials: its place among the words, its key, and its values or their range."""

    place: int
    key: str
    values: tuple[str, ...] | NumberRange


@dataclass(frozen=True)
class Space:
    """A command line with the settings that differ."""

    words: tuple[str, ...]
    axes: tuple[VariedSetting, ...]

    def trial(self, chosen: Mapping[str, str]) -> Trial:
        """The one with these values, by key."""
        words = list(self.words)
        for axis in self.axes:
            words[axis.place] = f"{axis.key}={chosen[axis.key]}"
        return Trial(tuple(words), {axis.key: chosen[axis.key] for axis in self.axes})


def product_of(words: Sequence[str]) -> list[Trial]:
    """A trial for each combination of values. Raises `Fault` CLI02 or CLI03 for words that `main.py` does not take."""
    space = Space(tuple(words), tuple(_axes(words, _checked(words, "").overrides)))
    if not space.axes:
        fix = "model.base_learning_rate=1e-5,3e-5"
        raise Fault("CLI03", "no setting has several values", where=NAME, fix=fix)
    keys = [axis.key for axis in space.axes]
    listed = [axis.values for axis in space.axes if not isinstance(axis.values, NumberRange)]
    return _unlike([space.trial(dict(zip(keys, chosen, strict=True))) for chosen in product(*listed)])


def space_of(words: Sequence[str]) -> Space:
    """What a search draws from. Raises `Fault` CLI02 or CLI03 for words that `main.py` does not take."""
    space = Space(tuple(words), tuple(_axes(words, _checked(words, "", ranges=True).overrides)))
    if not space.axes:
        fix = "model.base_learning_rate=1e-6..1e-4:log"
        raise Fault("CLI03", "no setting has a range or several values", where="--search", fix=fix)
    return space


def queue_of(path: Path) -> list[Trial]:
    """A trial for each line of a file. Raises `Fault` CFG01 where it cannot be read, CLI02 or CLI03 with the line."""
    try:
        text = read_plain_text(path)
    except (OSError, ValueError) as error:
        raise Fault("CFG01", f"the queue {path} cannot be read", where="--queue", why=str(error)) from error
    trials = [trial for number, line in enumerate(text.splitlines(), 1) for trial in _of_line(line, f"{path}:{number}")]
    if not trials:
        raise Fault("CLI03", f"{path} holds no command line", where="--queue", fix="python main.py --base ... -t")
    return _unlike(trials)


def split_values(text: str) -> list[str]:
    """The values of a setting, apart by commas outside of brackets and quotes: `1e-5,3e-5` or `[1,2],[3,4]`."""
    values, depth, quote = [""], 0, ""
    for letter in text:
        quote = "" if letter == quote else quote or (letter if letter in "\"'" else "")
        depth += 0 if quote else (letter in OPEN) - (letter in CLOSED)
        if letter == "," and depth == 0 and not quote:
            values.append("")
        else:
            values[-1] += letter
    values = [value.strip() for value in values]
    return values if all(values) else [text]


def _short(value: str) -> str:
    """A number of many digits, as a search draws them, to the first four that count; anything else as it is."""
    digits = FRACTION.fullmatch(value)
    return f"{float(value):.4g}" if digits and len((digits[1] + digits[2]).lstrip("0")) > 4 else value


def _of_line(line: str, where: str) -> Iterator[Trial]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise Fault("CLI03", f"{line.strip()} is no command line", where=where, why=str(error)) from error
    if not words:
        return
    program = next((at for at, word in enumerate(words[:2]) if PROGRAM.fullmatch(word)), None)
    if program is None and not words[0].startswith("-"):
        what = f"a queue runs main.py alone, not {words[0]}"
        raise Fault("CLI03", what, where=where, fix="python main.py --base ... -t")
    words = words[0 if program is None else program + 1 :]
    _checked(words, where)
    words = [word for word in words if word not in ("-t", "--train")]
    yield Trial(tuple(words), {"line": where.rpartition(":")[2]}, where)


def _axes(words: Sequence[str], overrides: Sequence[str]) -> Iterator[VariedSetting]:
    seen = set()
    for place, word in enumerate(words):
        key, is_setting, text = word.partition("=")
        if not is_setting or word not in overrides:
            continue
        values = range_of(text, key) or tuple(split_values(text))
        if isinstance(values, tuple) and len(values) < 2:
            continue
        if key in seen:
            raise Fault("CLI03", f"{key} has several values twice", where=key, fix="leave one of them out")
        seen.add(key)
        yield VariedSetting(place, key, values)


def _refuse_ranges(overrides: Sequence[str], where: str, whole_too: bool) -> None:
    """Raise `Fault` CLI03 for a range that nothing would draw from: among several values, and alone if `whole_too`."""
    for key, _, text in (word.partition("=") for word in overrides):
        values = split_values(text)
        if (len(values) == 1 and not whole_too) or not any(range_of(value, where or key) for value in values):
            continue
        what = f"{text} is a range" if len(values) == 1 else f"{text} has a range among its values"
        search = "one number" if where else "--search optuna --trials 20 --metric val/loss"  # no search of a queue
        fix = search if len(values) == 1 else "a range alone, or values alone"
        raise Fault("CLI03", what, where=where or key, why="a search alone draws from one", fix=fix)


def _checked(words: Sequence[str], where: str, ranges: bool = False) -> Arguments:
    try:
        asked = parse(words)
    except Fault as fault:
        fault.where = where or fault.where
        raise
    require_taken(asked, NAME, where)
    _refuse_ranges(asked.overrides, where, whole_too=not ranges)
    return asked


def _unlike(trials: list[Trial]) -> list[Trial]:
    if len(trials) > MOST:
        raise Fault("CLI03", f"these are {len(trials):,} runs, more than {MOST:,}", fix="fewer values")
    seen: dict[Trial, Trial] = {}
    for trial in trials:
        if trial in seen:
            what = f"two runs are the same: {shlex.join(trial.words)}"
            raise Fault("CLI03", what, where=trial.where, fix="leave one of them out")
        seen[trial] = trial
    return trials
