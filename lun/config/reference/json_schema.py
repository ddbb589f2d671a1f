"""The JSON Schema of a configuration, for editors: keys with their meaning, and which `target` takes which `params`.

It describes one file, which may be a layer: nothing is demanded, since another may have it, and where a layer names no
target the keys of usual ones are offered. What it accepts beyond that is for `--check` to judge; a target of one's own
takes anything.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
from collections.abc import Mapping
from typing import Any

from ldm.admission import DRAWER, PROJECT
from lun.config.check import SCALE_LR
from lun.config.compat.import_paths import DROPPED, MOVED, REPLACED
from lun.config.reference.docstrings import about, descriptions
from lun.config.reference.nameable import NameablePart, parts
from lun.config.reference.schema_types import A_REFERENCE, ANYTHING, OF_ITS_TARGET, Json, SchemaTypes
from lun.config.sections import DEEPSPEED, ELSEWHERE, TRAINER
from lun.config.signature import Parameter, accepted_by, target_at
from lun.config.slots import ANY, CALLBACK, DATA, LOGGER, MODEL, Slot
from lun.config.trainer_values import IDLE, TYPES

DESCRIBED = {
    "base_learning_rate": (float | None, "learning rate; `scale_lr` says whether it grows with the pictures of a step"),
    "scale_lr": (SCALE_LR, "how the learning rate grows with the pictures of a step: none, linear, sqrt"),
}
"""Keys beside `target` and `params` of `model`."""
SEED = "one seed for everything that is drawn; -1 draws one"
EXTENDS = "files that this one comes after: beside it, or found as on the command line"
USUAL: Mapping[str, tuple[str, ...]] = {
    "model": ("ldm.models.diffusion.ddpm.LatentDiffusion", "ldm.models.autoencoder.AutoencoderKL"),
    "data": ("lun.data.module.DataModuleFromConfig",),
    "train": ("lun.data.local.Local", "lun.data.packed.PackedSet"),
    "validation": ("lun.data.local.Local", "lun.data.packed.PackedSet"),
    "unet_config": ("ldm.modules.networks.",),
    "cond_stage_config": ("ldm.modules.encoders.",),
    "first_stage_config": ("ldm.models.autoencoder.",),
    "ema_config": ("ldm.modules.ema.",),
    "training_config": ("ldm.training.rules.",),
    "adapter_config": ("ldm.adapters.Adapters",),
    "scheduler_config": ("ldm.lr_scheduler.",),
    "callbacks": ("lun.callbacks.",),
    "logger": ("lun.loggers.", "lightning.pytorch.loggers."),
    "objective": ("ldm.diffusion.objective.",),
    "precision": ("lun.strategies.precision.",),
}
"""{place: whose keys are offered in a layer that names no target there}, by beginnings of paths."""
CLOSED = ("model", "data")
"""Places where such a layer may have no other keys."""


def json_schema() -> Json:
    """The whole of it, by draft 7, which editors' YAML servers read."""
    return _Schema().whole()


def schema_text() -> str:
    """The same as text, with a line for each definition, so that a change shows where it is."""
    schema = json_schema()
    definitions = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in schema.pop("$defs").items())
    return f'{json.dumps(schema, indent=1)[:-2]},\n "$defs": {{\n{definitions}\n}}\n}}\n'


def versions() -> str:
    """The libraries whose classes it describes, as they are installed."""
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "lightning", "diffusers"))


class _Schema:
    def __init__(self) -> None:
        self.types = SchemaTypes(self.recipe)
        self.definitions: dict[str, Json] = {}

    def whole(self) -> Json:
        sections = {
            "extends": {"description": EXTENDS, "type": ["string", "array"], "items": {"type": "string"}},
            "model": self.recipe("model", MODEL),
            "data": self.recipe("data", DATA),
            "lightning": self.lightning(),
            "seed": {**self.types.of(int | None), "description": SEED},
        }
        for part in self.parts.values():
            self.definitions[part.path] = self.params(part)
        self.definitions["a-target"] = {"allOf": [_takes(part) for part in self.parts.values()]}
        self.definitions["an-import-path"] = self.import_path()
        self.definitions["anything"] = self.anything()
        definitions = {**self.definitions, **self.types.definitions}
        return {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$comment": f"made by python main.py --schema, with {versions()}",
            "title": "A configuration of lun",
            "type": ["object", "null"],
            "properties": sections,
            "patternProperties": {"^x-": {}},
            "additionalProperties": False,
            "$defs": dict(sorted(definitions.items())),
        }

    @functools.cached_property
    def parts(self) -> Mapping[str, NameablePart]:
        return parts()

    def lightning(self) -> Json:
        """Trainer arguments, callbacks and loggers; null takes out what an earlier file names."""
        sections = {
            "trainer": self.trainer(),
            "callbacks": self.named("callbacks", CALLBACK),
            "logger": self.named("logger", LOGGER),
            "deepspeed": _map(
                self.properties(target_at(DEEPSPEED)), "settings of DeepSpeed, as configs of 2022 have them"
            ),
        }
        return _map(sections, "how to run", ("object", "null"))

    def named(self, place: str, slot: Slot) -> Json:
        either = {"anyOf": [self.recipe(place, slot), {"type": "null"}]}
        return {
            "type": ["object", "null"],
            "description": f"name: {slot.kind}, or null",
            "additionalProperties": either,
        }

    def trainer(self) -> Json:
        target = target_at(TRAINER)
        said, taken = descriptions(target), accepted_by(target).parameters
        known = {name: _as_here(name, one) for name, one in taken.items() if name not in ELSEWHERE}
        properties = self.types.properties(known, said)
        for name in properties.keys() & IDLE.keys():
            note = f"no effect here: {IDLE[name].why}; {IDLE[name].fix}"
            properties[name] = {"enum": list(IDLE[name].harmless), "description": note}
        properties["precision"] = {"anyOf": [properties["precision"], self.recipe("precision", ANY)]}
        properties["check_val_every_n_epoch"] = {**ANYTHING, "description": "read as val_check_interval in epochs"}
        return _map(properties, "arguments of lightning.Trainer", ("object", "null"))

    def properties(self, target: Any) -> Json:
        return self.types.properties(accepted_by(target).parameters, descriptions(target))

    def params(self, part: NameablePart) -> Json:
        accepted = accepted_by(part.target)
        more = {} if accepted.anything else {"additionalProperties": False}
        return {
            "type": ["object", "null"],
            "description": about(part.target),
            "properties": self.properties(part.target),
            **more,
        }

    def recipe(self, place: str, slot: Slot) -> Json:
        """A map with `target` and `params`, in a place where a slot says what fits."""
        name = f"recipe-of-{place}" if place in USUAL or slot is not ANY else "recipe"
        if name not in self.definitions:
            self.definitions[name] = {}  # known before its targets, which may need it
            self.definitions[name] = self.recipe_of(place, slot)
        return {"$ref": f"#/$defs/{name}"}

    def recipe_of(self, place: str, slot: Slot) -> Json:
        fitting = [path for path, part in self.parts.items() if slot is ANY or slot.test(part.target)]
        usual = [path for path in self.parts if path.startswith(USUAL.get(place, ("-",)))]
        offered = [path for path in fitting if path in usual] or fitting
        keys: dict[str, Json] = {
            "target": {"$ref": "#/$defs/an-import-path", "examples": offered},
            "params": {},
            **{
                key: {**self.types.of(DESCRIBED[key][0]), "description": DESCRIBED[key][1]}
                for key in slot.beside
                if key in DESCRIBED
            },
        }
        if "dataloader_params" in slot.beside:
            keys["dataloader_params"] = self.loader()
        return {
            "type": "object",
            "description": f"{slot.kind}: target (an import path) and params (what it takes)",
            "properties": keys,
            "additionalProperties": False,
            "if": {"required": ["target"]},
            "then": OF_ITS_TARGET,
            "else": {"properties": {"params": self.unnamed(place, usual)}},
        }

    def unnamed(self, place: str, usual: list[str]) -> Json:
        """The params of a layer that does not say whose they are."""
        open_end: list[Json] = [] if place in CLOSED else [{"type": ["object", "null"], "allOf": [ANYTHING]}]
        return {"anyOf": [{"$ref": f"#/$defs/{path}"} for path in usual] + open_end}

    def import_path(self) -> Json:
        """One that is known here, or any of another package: those of one's own are for `--check` to look at."""
        ours = rf"^(?!({'|'.join(PROJECT)})\.(?!{DRAWER.partition('.')[2]}\.))[A-Za-z_]\w*(\.\w+)+$"
        known = [path for part in self.parts.values() for path in part.paths]
        return {
            "anyOf": [{"enum": [*known, *MOVED, *REPLACED, *DROPPED]}, {"type": "string", "pattern": ours}, A_REFERENCE]
        }

    def loader(self) -> Json:
        if "DataLoader" not in self.definitions:
            self.definitions["DataLoader"] = _map(
                self.properties(target_at("torch.utils.data.DataLoader")),
                "arguments of torch.utils.data.DataLoader",
                ("object", "null"),
            )
        return {"$ref": "#/$defs/DataLoader"}

    def anything(self) -> Json:
        """Recipes at any depth of what has no type of its own."""
        return {
            "if": {"type": "object", "required": ["target"]},
            "then": self.recipe("", ANY),
            "else": {"additionalProperties": ANYTHING, "items": ANYTHING},
        }


def _as_here(name: str, parameter: Parameter) -> Parameter:
    return Parameter(TYPES.get(name, parameter.annotation), parameter.required, parameter.nullable, parameter.default)


def _map(properties: Json, note: str, kinds: tuple[str, ...] = ("object",)) -> Json:
    kind: Any = kinds[0] if len(kinds) == 1 else list(kinds)
    return {"type": kind, "description": note, "properties": properties, "additionalProperties": False}


def _takes(part: NameablePart) -> Json:
    """The params of a part, where one of its paths, or one that it had in 2022, is the target."""
    old = [path for path, new in MOVED.items() if new in part.paths]
    return {
        "if": {"properties": {"target": {"enum": [*part.paths, *old]}}},
        "then": {"properties": {"params": {"$ref": f"#/$defs/{part.path}"}}},
    }
