"""From a parsed command line to the configuration of the run: files, flags, old spellings, checks."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import yaml

from ldm.errors import Fault
from lun.cli import flag_conflicts
from lun.cli.arguments import Arguments
from lun.config.check import check, warnings
from lun.config.compat.sdxl_unconditional import keep_unconditional
from lun.config.compat.upgrade import upgrade
from lun.config.reading.load_layers import Merged, read_layers
from lun.run.data_roots import MISSING, data_roots, inside, root_flag
from lun.run.defaults import DEFAULTS
from lun.run.wanted_length import with_wanted_length
from lun.run_dir.config_changes import stored_settings
from lun.strategies.strategy_names import unread_section, with_deepspeed_section

if TYPE_CHECKING:  # it brings torch along, and a missing file should be reported before that
    from lun.run_dir.resume import Resume

log = logging.getLogger(__name__)
NOT_THERE = ("CFG07", "DEP", "DAT", "MOD01", "MOD06", "DEV")
"""Faults of a value, package, folder, file or device that is not there; they do not stand in the way of a plan."""


@dataclass(frozen=True)
class Settings:
    """The configuration, checked and in today's spelling; `notes` are to be said once; `files` are its layers."""

    config: dict[str, Any]
    notes: tuple[str, ...]
    files: tuple[str, ...]

    def lightning(self, section: str) -> dict[str, Any]:
        """One part of the `lightning` section: trainer, callbacks, logger."""
        return dict((self.config.get("lightning") or {}).get(section) or {})

    def trainer(self) -> dict[str, Any]:
        """The Trainer's arguments, with what the section `deepspeed` adds to them."""
        return with_deepspeed_section(self.lightning("trainer"), self.lightning("deepspeed"))

    def with_config(self, **sections: Any) -> Settings:
        """The same with other sections in the configuration."""
        return replace(self, config=self.config | sections)

    def say_notes(self) -> None:
        """Log what was translated and what differs from the program that an old file was written for."""
        for note in self.notes:
            log.info("note: %s", note)


def read_settings(arguments: Arguments, resume: Resume | None) -> Settings:
    """Merge, translate and check. Raises `Fault` or an ExceptionGroup of all that is wrong."""
    settings, faults = look_at_settings(arguments, resume)
    if faults:
        raise ExceptionGroup("faults in the configuration", faults)
    return settings


def look_at_settings(arguments: Arguments, resume: Resume | None) -> tuple[Settings, list[Fault]]:
    """Merge and translate, and find what is wrong. Raises `Fault` or an ExceptionGroup where nothing can be merged."""
    files = layers_of(arguments, resume)
    layers = read_layers(files, DEFAULTS)
    merged = layers.with_settings(arguments.overrides)
    if flags := flags_as_overrides(arguments, merged.config):
        merged = layers.with_settings((*arguments.overrides, *flags))
    merged, shorter = with_wanted_length(merged, files if resume and not arguments.base else ())
    merged, idle = without_idle_monitors(merged)
    merged, notes, faults = upgrade(merged)
    kept = keep_unconditional(merged.config, _stored(resume))
    merged = merged.replaced(kept.config)
    faults += unusable_texts(merged) + missing_values(merged) + _with_unresolved(merged, check(merged))
    notes = [*flag_conflicts.notes(arguments), *notes, *kept.notes, *shorter, *idle, *warnings(merged)]
    settings = Settings(merged.config, tuple(notes), merged.files)
    unread = unread_section(settings.lightning("trainer"), settings.lightning("deepspeed"))
    return (replace(settings, notes=(*settings.notes, unread)) if unread else settings), faults


def without_idle_monitors(merged: Merged) -> tuple[Merged, list[str]]:
    """The configuration without savers that wait for a metric that nothing computes and nobody named, and notes."""
    if isinstance(inside(merged.config, "data", "params", "validation"), dict):
        return merged, []
    waiting = {
        path[2]: fault
        for path, fault in merged.unresolved.items()
        if path[:2] == ("lightning", "callbacks") and path[3:] == ("params", "monitor")
    }
    if not waiting:
        return merged, []
    callbacks = inside(merged.config, "lightning", "callbacks") or {}
    lightning = {**(merged.config.get("lightning") or {}), "callbacks": callbacks | dict.fromkeys(waiting)}
    unresolved = {path: fault for path, fault in merged.unresolved.items() if path[2:3] not in {(n,) for n in waiting}}
    notes = [f"lightning.callbacks.{name} is off: nothing is validated, and no metric is named" for name in waiting]
    return replace(merged, config=merged.config | {"lightning": lightning}, unresolved=unresolved), notes


def _with_unresolved(merged: Merged, faults: list[Fault]) -> list[Fault]:
    """`faults` and what is unresolved; under a wrong target of the model its params are not the point."""
    if any(fault.id in ("CFG04", "DEP01") and "model.target" in fault.where for fault in faults):
        return faults
    return [*merged.unresolved.values(), *faults]


def is_missing(error: Exception) -> bool:
    """Whether all that is wrong is that something is not there."""
    faults = error.exceptions if isinstance(error, ExceptionGroup) else [error]
    return all(isinstance(fault, Fault) and fault.id.startswith(NOT_THERE) for fault in faults)


def _stored(resume: Resume | None) -> dict[str, Any] | None:
    """The configuration of the run that goes on; None for a new one."""
    return dict(stored_settings(resume.run.resolved_config) or {}) if resume else None


def layers_of(arguments: Arguments, resume: Resume | None) -> list[str]:
    """The files to merge: those of `--base`, else what the resumed run stored."""
    if arguments.base or resume is None:
        return list(arguments.base)
    if resume.run.resolved_config.exists():
        return [str(resume.run.resolved_config)]
    return [str(path) for path in sorted(resume.run.configs.glob("*.yaml"))]  # a run of 2022


def flags_as_overrides(arguments: Arguments, config: dict[str, Any]) -> list[str]:
    """What flags say, as settings of the command line."""
    said = {
        "seed": arguments.seed,
        "model.scale_lr": arguments.scale_lr,
        "model.params.ckpt_path": arguments.init_from,
    }
    said |= data_roots(config, arguments.data_root)
    return [f"{path}={json.dumps(value, ensure_ascii=False)}" for path, value in said.items() if value is not None]


def unusable_texts(merged: Merged) -> list[Fault]:
    """One fault for each text that no file, environment or log takes: with zeros, or halves of characters."""
    return [
        Fault("CFG08", f"{'.'.join(path)} is no text: {text!a}", where=merged.where(path))
        for path, text in _texts(merged.config, ())
        if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text)
    ]


def _texts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, str(key)))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, path)
    elif isinstance(value, str):
        yield path, value


def missing_values(merged: Merged) -> list[Fault]:
    """One fault for each setting that is `???`, which a person has to say."""
    return [
        Fault(
            "CFG07",
            f"{'.'.join(path)} has no value",
            where=merged.where(path),
            fix=root_flag(path) if path[-1] == "data_root" else f"{'.'.join(path)}=VALUE",
        )
        for path in _missing(merged.config, ())
    ]


def _missing(value: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    if isinstance(value, dict):
        return [missing for key, item in value.items() for missing in _missing(item, (*path, str(key)))]
    return [path] if value == MISSING else []


def as_yaml(config: Any) -> str:
    """A configuration as YAML text that reads back as it is."""
    return str(yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=120))
