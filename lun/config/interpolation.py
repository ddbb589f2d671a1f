"""`${a.b}` in a merged configuration: each is replaced by the setting that it names."""

from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import GrammarParseError, InterpolationKeyError, OmegaConfBaseException

from ldm.errors import Fault
from lun.config.errors import nearest, raise_all
from lun.config.source import Path


def resolved(config: dict[str, Any], positions: Mapping[Path, str]) -> dict[str, Any]:
    """The configuration with every interpolation replaced; raises `Fault` CFG06, or an ExceptionGroup of several."""
    places = [(path, text) for path, text in _texts(config) if "${" in text]
    if not places:
        return config
    try:
        tree = OmegaConf.create(config)
    except GrammarParseError as error:
        raise Fault(
            "CFG06",
            f"an interpolation cannot be read: {_first_line(error)}",
            fix=r"write \${ for text that is no reference",
        ) from error
    faults = [fault for path, text in places if (fault := _fault(tree, path, text, positions))]
    raise_all(faults)
    plain = OmegaConf.to_container(tree, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _fault(tree: Any, path: Path, text: str, positions: Mapping[Path, str]) -> Fault | None:
    try:
        node = tree
        for key in path:
            node = node[int(key) if OmegaConf.is_list(node) else key]
    except InterpolationKeyError:
        return Fault(
            "CFG06",
            f"{text} refers to a setting that does not exist",
            where=f"{'.'.join(path)} ({positions.get(path, '')})",
            fix=_suggestion(text, positions),
        )
    except OmegaConfBaseException as error:
        return Fault(
            "CFG06",
            f"{text} cannot be resolved",
            where=f"{'.'.join(path)} ({positions.get(path, '')})",
            why=_first_line(error),
        )
    return None


def _suggestion(text: str, positions: Mapping[Path, str]) -> str:
    named = text.partition("${")[2].partition("}")[0]
    known = [".".join(place) for place in positions]
    same_parent = [name for name in known if name.rpartition(".")[0] == named.rpartition(".")[0]]
    near = nearest(named, same_parent) or nearest(named, known)
    show = "show the merged config: add --print-config"
    return f"did you mean ${{{near}}}?   {show}" if near else show


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
