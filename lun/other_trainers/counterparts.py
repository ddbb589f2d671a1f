"""A table of each program that people come from: its settings, and what stands here for each.

Three read it: the answer to an option that only others know (`lun.cli.other_names`), `python -m lun.migrate`, and
`docs/migration.md`, which is made from it.

How a program is added:

1. `NAME_table.py` here: a `ProgramTable` of rows, each a `Counterpart` under all names that it has there; add it to
   `programs.TABLES`. Names of nested files are joined by dots (`train.lr`).
2. `lun/migrate/`: a reader, `read(given, draft)`. It takes what says something only together (an optimizer and its
   arguments) by `given.take(name)` and writes it by `draft.set`; `draft.translate(given, TABLE)` does the rest by the
   table. Name it in `lun.migrate.recognise`.
3. a file of it under `tests/fixtures/foreign`, which the tests read, check and train by themselves; then
   `python scripts/make_migration.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

VALUE = "{}"
TRAIN = "data.params.train.params"
CALLBACKS = "lightning.callbacks"

Kind = Literal["same", "changed", "idle", "none"]
"""It has an equal; one that differs, as `say` says; nothing has to be said; there is none."""


@dataclass(frozen=True)
class Counterpart:
    """What stands here for a setting of another trainer.

    words    what to type, `{}` being the value; none where nothing has to be said, or nothing can be
    base     overlays to name after --base
    say      what there is to know besides; of one that is changed, idle or has no equal: how, or why
    kind     what becomes of the setting
    reads    the value as it is written here
    example  a value as it is written there; "" for an option without one
    pairs    its value is one or more words NAME=VALUE
    choices  what stands for some values, by these in lower case, in the place of all the above
    """

    words: tuple[str, ...] = ()
    base: tuple[str, ...] = ()
    say: str = ""
    kind: Kind = "same"
    reads: Callable[[str], str] = str
    example: str = ""
    pairs: bool = False
    choices: Mapping[str, Counterpart] = field(default_factory=dict)

    def of(self, value: str | None) -> Counterpart:
        """What stands for this value."""
        return self.choices.get(value.lower(), self) if value is not None else self

    def typed(self, value: str | None) -> list[str]:
        """The words for a value; a capital one stands for it where none was given."""
        text = "VALUE" if value is None else self.reads(value)
        return [word.replace(VALUE, text) for word in self.words]


@dataclass(frozen=True)
class ProgramTable:
    """The settings of one program.

    program  as people call it
    about    the page's words on it
    rows     by name; those of one Counterpart stand together on the page
    options  whether names are options of a command line, with two dashes, but for those in `keys`
    """

    program: str
    about: str
    rows: Mapping[str, Counterpart]
    options: bool = True
    keys: tuple[str, ...] = ()

    def shown(self, name: str) -> str:
        """A name as it is written there."""
        return f"--{name}" if self.options and name not in self.keys else name


def rows(*given: tuple[str, Counterpart]) -> dict[str, Counterpart]:
    """Rows of a table: (names, what stands for all of them), names with spaces between. A name is there once."""
    found: dict[str, Counterpart] = {}
    for names, counterpart in given:
        for name in names.split():
            if name in found:
                raise ValueError(f"{name} has two rows")
            found[name] = counterpart
    return found


def flag(word: str, example: str, reads: Callable[[str], str] = str) -> Counterpart:
    """An option of `main.py`."""
    return Counterpart((word, VALUE), reads=reads, example=example)


def setting(path: str, example: str, reads: Callable[[str], str] = str) -> Counterpart:
    """A setting of the configuration."""
    return Counterpart((f"{path}={VALUE}",), reads=reads, example=example)


def captions(value: str, example: str = "") -> Counterpart:
    """A rule by which captions are made, of `captions` of a folder: `captions("keep_tags: {}", "1")`."""
    reads = escaped if '"{}"' in value else str
    return Counterpart((f"{TRAIN}.captions={{{value}}}",), example=example, reads=reads)


def escaped(text: str) -> str:
    """A text as it stands between the quotes of YAML."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def objective(value: str, example: str = "") -> Counterpart:
    """A part of the objective, as YAML of its params."""
    recipe = f"{{target: ldm.diffusion.objective.Objective, params: {{{value}}}}}"
    return recipe_at("model.params.objective", recipe, example)


def recipe_at(path: str, recipe: str, example: str = "", base: tuple[str, ...] = ()) -> Counterpart:
    """A map, as YAML, over what stands at a path."""
    return Counterpart(("=".join((path, recipe)),), base, example=example)


def idle(why: str) -> Counterpart:
    """Nothing has to be said here."""
    return Counterpart(kind="idle", say=why)


def none(why: str, example: str = "") -> Counterpart:
    """There is no equal."""
    return Counterpart(kind="none", say=why, example=example)


def elsewhere(say: str, example: str = "") -> Counterpart:
    """What is said in another way than by one setting."""
    return Counterpart(say=say, example=example)


def changed(counterpart: Counterpart, how: str) -> Counterpart:
    """Another meaning of what stands here: `how` says which."""
    return replace(counterpart, kind="changed", say=how)


def noted(counterpart: Counterpart, say: str) -> Counterpart:
    """The same with something to know besides."""
    return replace(counterpart, say=say)


def among(known: Mapping[str, str], otherwise: str = VALUE) -> Callable[[str], str]:
    """Reads a value by its lower case among those known."""
    return lambda text: known.get(text.lower(), otherwise.replace(VALUE, text))


def by_name(tables: Iterable[ProgramTable]) -> dict[str, Counterpart]:
    """The rows of several programs; the first that has a name says what it means. Inner keys are no options."""
    found: dict[str, Counterpart] = {}
    for table in tables:
        for name, counterpart in table.rows.items():
            if "." not in name:
                found.setdefault(name, counterpart)
    return found
