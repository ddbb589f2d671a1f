"""References of any kind, through the library whose grammar they are in, and what is wrong with one."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import GrammarParseError, InterpolationKeyError, OmegaConfBaseException

from ldm.errors import Fault
from lun.config.reading.references import at, put
from lun.config.reading.yaml_tree import Path
from lun.config.suggestions import nearest


def resolved_by_library(
    config: dict[str, Any], places: Sequence[tuple[Path, str]], positions: Mapping[Path, str]
) -> tuple[dict[str, Any], dict[Path, Fault]]:
    """The configuration with the references in the texts at `places` replaced, and a `Fault` CFG06 for each that stays
    as it is written."""
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
            put(result, path, text)
    return result, faults


def _without(config: dict[str, Any], places: Iterable[Path]) -> Any:
    kept = deepcopy(config)
    for path in places:
        put(kept, path, None)
    return OmegaConf.create(kept)


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
    sets = at(config, (*place.split("."), "params", "train", "sets")) if inside else None
    return {name: at(one, ("params", *key.split("."))) for name, one in sets.items()} if isinstance(sets, dict) else {}


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


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
