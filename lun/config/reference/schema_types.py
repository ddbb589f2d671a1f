"""Type annotations as JSON Schema: what an editor accepts in the place of a setting."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from ldm.util import Recipe
from lun.config.reference.docstrings import about, descriptions, descriptions_of_fields
from lun.config.schema import MAPS, SEQUENCES, alternatives, is_built, is_of_fixed_length
from lun.config.signature import Parameter
from lun.config.slots import ANY, DATASET, DATASETS, SCHEDULE, Slot, slot_of_annotation, slot_of_parameter

Json = dict[str, Any]
ANYTHING: Json = {"$ref": "#/$defs/anything"}
OF_ITS_TARGET: Json = {"$ref": "#/$defs/a-target"}
A_REFERENCE: Json = {"type": "string", "pattern": r"\$\{"}
"""What stands for a value that is written elsewhere: `${model.params.monitor}`."""
_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


class SchemaTypes:
    """Translates annotations, and collects in `definitions` the shapes of maps that they name.

    recipe  the schema of a recipe in a place that is called so, of a slot
    """

    def __init__(self, recipe: Callable[[str, Slot], Json]) -> None:
        self.recipe = recipe
        self.definitions: dict[str, Json] = {}

    def properties(self, parameters: Mapping[str, Parameter], said: Mapping[str, str]) -> Json:
        """The keys of a target, each with its type, meaning and default."""
        return {name: self.property(name, one, said.get(name, "")) for name, one in parameters.items()}

    def property(self, name: str, parameter: Parameter, said: str) -> Json:
        annotation = _or_null(parameter.annotation) if parameter.nullable else parameter.annotation
        note = "; ".join(part for part in (said, "needed" if parameter.required else "") if part)
        return {**self.of(annotation, name), **({"description": note} if note else {}), **_default(parameter)}

    def of(self, annotation: Any, name: str = "") -> Json:
        """What a value of a setting called `name` may be, or a reference to one (`${...}`) in its place."""
        choices = alternatives(annotation)
        if any(choice in (Any, object) for choice in choices):
            return self.recipe(name, SCHEDULE) if name == "schedule" else dict(ANYTHING)
        kinds = [_SCALARS[choice] for choice in choices if choice in _SCALARS]
        words = [word for one in choices if typing.get_origin(one) is Literal for word in typing.get_args(one)]
        schemas = [schema for one in choices if one not in _SCALARS for schema in self.containers(one, name)]
        schemas += [{"enum": words}] if words else []
        schemas = _each_once([*schemas, _scalar(kinds)])
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def containers(self, choice: Any, name: str) -> Iterator[Json]:
        """What is no scalar: a list, a map, a recipe."""
        origin, given = typing.get_origin(choice), typing.get_args(choice)
        container = origin or choice
        if origin is typing.Annotated:
            yield self.of(given[0], name)
        elif container in SEQUENCES:
            yield self.list_of(container, given)
        elif typing.is_typeddict(choice) or (is_built(choice) and dataclasses.is_dataclass(choice)):
            yield self.shape(choice)
        elif choice == Recipe and (name.endswith("_config") or name in DATASETS):
            yield self.recipe(name, DATASET if name in DATASETS else slot_of_parameter(name, ANY))
        elif container in MAPS:
            yield self.map_of(given)
        elif origin is not Literal:
            yield from self.objects(choice, container, name)

    def objects(self, choice: Any, container: Any, name: str) -> Iterator[Json]:
        """What a recipe makes; a library turns text or a list into objects of its own, too."""
        if not (inspect.isclass(container) or container is collections.abc.Callable):
            yield dict(ANYTHING)
            return
        slot = slot_of_annotation(choice)
        yield self.recipe(choice.__name__ if slot else name, slot or slot_of_parameter(name, ANY))
        if slot and not is_built(choice):
            yield {"type": ["string", "array"]}

    def list_of(self, container: Any, given: tuple[Any, ...]) -> Json:
        if not given:
            return {"type": "array", "items": dict(ANYTHING)}
        if is_of_fixed_length(container, given):
            length = len(given)
            return {"type": "array", "items": [self.of(one) for one in given], "minItems": length, "maxItems": length}
        return {"type": "array", "items": self.of(_as_entry(given[0]))}

    def map_of(self, given: tuple[Any, ...]) -> Json:
        """Null takes out what an earlier file has under a name."""
        inner = self.of(_or_null(_as_entry(given[1]))) if len(given) == 2 else dict(ANYTHING)
        return {"type": "object", **({"allOf": [inner]} if inner == ANYTHING else {"additionalProperties": inner})}

    def shape(self, shape: Any) -> Json:
        """A map with the keys of a TypedDict or dataclass."""
        name = shape.__name__
        if name not in self.definitions:
            self.definitions[name] = {}  # known before its own keys, which may name it
            said = descriptions_of_fields(shape) if typing.is_typeddict(shape) else descriptions(shape)
            fields = typing.get_type_hints(shape, include_extras=False)
            self.definitions[name] = {
                "type": "object",
                "description": about(shape),
                "properties": {
                    key: {**self.of(one, key), **({"description": said[key]} if key in said else {})}
                    for key, one in fields.items()
                },
                "additionalProperties": False,
                **({"if": {"required": ["target"]}, "then": OF_ITS_TARGET} if "target" in fields else {}),
            }
        return {"$ref": f"#/$defs/{name}"}


def _as_entry(annotation: Any) -> Any:
    """Numbers may stand for text inside lists and maps, where they are tags."""
    return str | float if annotation is str else annotation


def _or_null(annotation: Any) -> Any:
    return annotation if annotation is Any else annotation | None


def _scalar(kinds: list[str]) -> Json:
    if "string" in kinds:
        return {"type": kinds if len(kinds) > 1 else kinds[0]}
    return {**A_REFERENCE, "type": [*kinds, "string"]} if kinds else dict(A_REFERENCE)


def _default(parameter: Parameter) -> Json:
    value = list(parameter.default) if isinstance(parameter.default, tuple | list) else parameter.default
    plain = all(
        one is None or isinstance(one, bool | int | float | str)
        for one in (value if isinstance(value, list) else [value])
    )
    return {"default": value} if plain and not parameter.required else {}


def _each_once(schemas: Iterable[Json]) -> list[Json]:
    found: list[Json] = []
    for one in schemas:
        if one == ANYTHING:
            return [dict(ANYTHING)]
        if one not in found:
            found.append(one)
    return found
