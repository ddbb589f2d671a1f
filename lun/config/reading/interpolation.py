"""`${a.b}` in a merged configuration: each is replaced by the setting that it names."""

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import GrammarParseError, InterpolationKeyError, OmegaConfBaseException

from ldm.errors import Fault
from lun.config.reading.yaml_tree import Path
from lun.config.suggestions import nearest

REFERENCE = re.compile(r"\$\{([^${}:]+)\}")
LARGEST = 1_000_000


def resolved(config: dict[str, Any], positions: Mapping[Path, str]) -> tuple[dict[str, Any], dict[Path, Fault]]:
    """The configuration with every interpolation replaced, and a `Fault` CFG06 for each that stays as it is written.

    Raises `Fault` CFG06 for references that would grow without bounds.
    """
    places = [(path, text) for path, text in _texts(config) if "${" in text]
    if not places:
        return config, {}
    refuse_bomb(config, places)
    try:
        tree = OmegaConf.create(config)
    except GrammarParseError as error:
        what = f"an interpolation cannot be read: {_first_line(error)}"
        return config, {(): Fault("CFG06", what, fix=r"write \${ for text that is no reference")}
    faults = {path: fault for path, text in places if (fault := _fault(tree, path, text, positions))}
    plain = OmegaConf.to_container(_without(config, faults) if faults else tree, resolve=True)
    assert isinstance(plain, dict)
    result = {str(key): value for key, value in plain.items()}
    for path, text in places:
        if path in faults:
            _put(result, path, text)
    return result, faults


def _without(config: dict[str, Any], places: Iterable[Path]) -> Any:
    kept = deepcopy(config)
    for path in places:
        _put(kept, path, None)
    return OmegaConf.create(kept)


def refuse_bomb(config: dict[str, Any], places: list[tuple[Path, str]]) -> None:
    """Raise `Fault` CFG06 where references to references would grow beyond what any configuration needs.

    Sizes are counted, not built: a reference weighs what it names does, `${a}${a}` twice as much.
    """
    weights: dict[Path, int] = {}

    def weight(value: Any, path: Path) -> int:
        if isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            return 1 + sum(weight(item, (*path, str(key))) for key, item in items)
        if not isinstance(value, str):
            return 1
        return len(value) + sum(named(_meant(name, path)) for name in REFERENCE.findall(value))

    def named(path: Path) -> int:
        if path not in weights:
            weights[path] = 0  # while it is being weighed; a circle is reported by the library
            weights[path] = weight(_at(config, path), path)
        return min(weights[path], LARGEST)

    for path, text in places:
        if weight(text, path) >= LARGEST:
            why = f"with all that it refers to it is longer than {LARGEST:,} characters"
            raise Fault("CFG06", f"{'.'.join(path)} cannot be resolved", where=".".join(path), why=why)


def _meant(name: str, path: Path) -> Path:
    """The place that `a.b[0]` means, or `.b` (beside `path`), `..b` (a level above)."""
    dots = len(name) - len(name.lstrip("."))
    keys = tuple(name[dots:].replace("[", ".").replace("]", "").split("."))
    return (*path[: max(len(path) - dots, 0)], *keys) if dots else keys


def _at(config: Any, path: Path) -> Any:
    """The value at a path; None where there is none."""
    for key in path:
        if isinstance(config, list):
            config = config[int(key)] if key.isdecimal() and int(key) < len(config) else None
        else:
            config = config.get(key) if isinstance(config, dict) else None
    return config


def _fault(tree: Any, path: Path, text: str, positions: Mapping[Path, str]) -> Fault | None:
    try:
        node = tree
        for key in path:
            node = node[int(key) if OmegaConf.is_list(node) else key]
    except InterpolationKeyError:
        sets = _sets_there(tree, text)
        return Fault(
            "CFG06",
            f"{text} refers to a setting that does not exist",
            where=f"{'.'.join(path)} ({positions.get(path, '')})",
            why=f"there are several sets, each with one of its own: {', '.join(sets)}" if sets else "",
            fix=_written_out(path, sets.values()) if sets else _suggestion(text, positions),
        )
    except OmegaConfBaseException as error:
        return Fault(
            "CFG06",
            f"{text} cannot be resolved",
            where=f"{'.'.join(path)} ({positions.get(path, '')})",
            why=_first_line(error),
        )
    return None


def _sets_there(tree: Any, text: str) -> dict[str, Any]:
    """{NAME: what it says itself} of several sets that stand where `${PLACE.params.KEY}` means the params of one."""
    named = text.partition("${")[2].partition("}")[0]
    place, inside, key = named.partition(".params.train.params.")
    config = OmegaConf.to_container(tree, resolve=False)
    sets = _at(config, (*place.split("."), "params", "train", "sets")) if inside else None
    return {name: _at(one, ("params", *key.split("."))) for name, one in sets.items()} if isinstance(sets, dict) else {}


def _written_out(path: Path, values: Iterable[Any]) -> str:
    """The setting at `path` with the plain values that sets say themselves."""
    plain = list(map(str, sorted({value for value in values if isinstance(value, int | float)}))) or ["VALUE"]
    in_list = path[-1].isdecimal()
    written = f"[{', '.join(plain)}]" if in_list else plain[0]
    return f"{'.'.join(path[:-1] if in_list else path)}={written}"


def _suggestion(text: str, positions: Mapping[Path, str]) -> str:
    """The nearest setting beside the one that is named; what is merely longer than it in common is no match."""
    named = text.partition("${")[2].partition("}")[0]
    parent, _, last = named.rpartition(".")
    beside = [place[-1] for place in positions if place and ".".join(place[:-1]) == parent]
    near = nearest(last, beside)
    show = "show the merged config: add --print-config"
    if near:
        return f"did you mean ${{{parent}.{near}}}?   {show}" if parent else f"did you mean ${{{near}}}?   {show}"
    if beside:
        return f"give it a value: {named}=VALUE   {show}"
    far = nearest(named, [".".join(place) for place in positions])
    return f"did you mean ${{{far}}}?   {show}" if far else show


def _put(config: Any, path: Path, text: str | None) -> None:
    for key in path[:-1]:
        config = config[int(key) if isinstance(config, list) else key]
    config[int(path[-1]) if isinstance(config, list) else path[-1]] = text


def _texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, str(index)))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
