"""What an annotator is, and how the one that a command line names is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import isclass
from typing import Any, NamedTuple, Protocol

from PIL.Image import Image

from ldm.admission import admitted, definition, get_obj_from_str
from ldm.errors import Fault
from ldm.plain_yaml import parse_yaml
from ldm.shell import quoted
from ldm.util import instantiate_from_config
from lun.config.schema import mismatch
from lun.config.signature import accepted_by
from lun.config.suggestions import nearest

BUILT_IN = {
    "caption": "lun.annotate.captioner.Captioner",
    "tag": "lun.annotate.tagger.Tagger",
    "score": "lun.annotate.scorer.Scorer",
    "mask": "lun.annotate.masker.Masker",
}

Row = Mapping[str, Any]


class Annotator(Protocol):
    """Describes pictures. One of your own is a class in `lun.local`, or in a package that `--allow` names.

    columns  what it gives: `caption` (text), `tags` (a list of text), `score` (a number) and columns of your own are
             plain JSON; `mask` is a picture whose white counts in the loss, of any size and the picture's shape
    """

    columns: Sequence[str]

    def __call__(self, pictures: Sequence[Image]) -> Sequence[Row]:
        """A row of `columns` for each of the pictures (RGB, upright)."""


class AnnotatorChoice(NamedTuple):
    """What the command line says of an annotator: `given` are the flags that all have, as far as they were given."""

    name: str
    given: Mapping[str, Any]
    params: Mapping[str, Any]

    @property
    def target(self) -> str:
        """Its import path."""
        return BUILT_IN.get(self.name, self.name)


def parsed_params(pairs: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE`, the value in YAML. Raises `Fault` CLI03."""
    params = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        try:
            params[key] = parse_yaml(value)
        except ValueError as error:
            raise Fault(
                "CLI03", f"{pair} is no YAML", why=str(error), where="--param", fix="--param " + quoted(f'{key}="..."')
            ) from error
        if not (equals and key.isidentifier()):
            raise Fault("CLI03", f"--param takes KEY=VALUE, not {pair}", where="--param")
    return params


def require_annotator(wanted: AnnotatorChoice) -> None:
    """Raise `Fault` CFG04 for what may not be named, CLI03 for what is none or does not take what was given."""
    if wanted.name not in BUILT_IN and "." not in wanted.name:
        what = f"there is no annotator {wanted.name}"
        raise Fault("CLI03", what, where="--with", fix=f"one of {', '.join(BUILT_IN)}, or an import path of your own")
    target = _target(wanted)
    if not (isclass(target) and hasattr(target, "columns") and any("__call__" in vars(one) for one in target.__mro__)):
        why = "an annotator is a class with columns and __call__(pictures)"
        raise Fault("CFG04", f"{wanted.name} is no annotator", where="--with", why=why)
    _require_params(target, wanted)


def build_annotator(wanted: AnnotatorChoice) -> Annotator:
    """With all that was given, which `require_annotator` has looked at. Raises what its constructor is against."""
    params = {**wanted.given, **wanted.params}
    if wanted.name in BUILT_IN:
        built: Annotator = _target(wanted)(**params)
    else:
        built = instantiate_from_config({"target": wanted.target, "params": params})
    return built


def _target(wanted: AnnotatorChoice) -> Callable[..., Any]:
    """What is named: on trust where it is a word of this program, else where a configuration might name it."""
    found: Callable[..., Any] = (get_obj_from_str if wanted.name in BUILT_IN else admitted)(wanted.target)
    return found


def _require_params(target: Callable[..., Any], wanted: AnnotatorChoice) -> None:
    accepted = accepted_by(target)
    flags = {name: name for name in wanted.given} | {name: f"param {name}" for name in wanted.params}
    for name, value in {**wanted.given, **wanted.params}.items():
        declared = accepted.parameters.get(name)
        if declared is None and not accepted.anything:
            fix = f"it takes {', '.join(accepted.parameters) or 'nothing'}"
            close = nearest(name, accepted.parameters)
            what = f"{definition(target)} takes no {name}"
            raise Fault("CLI03", what, where=flags[name], fix="--param " + quoted(f"{close}=...") if close else fix)
        if declared is not None and (problem := mismatch(value, declared.annotation)):
            raise Fault("CLI03", f"{flags[name]}: {problem}", where=definition(target))
    for name, declared in accepted.parameters.items():
        if declared.required and name not in flags:
            fix = "--model DIR" if name == "model" else "--param " + quoted(f"{name}=...")
            raise Fault("CLI03", f"{wanted.name} needs {name}", where=definition(target), fix=fix)
