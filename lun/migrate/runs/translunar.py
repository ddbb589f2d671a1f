"""Configurations of 2022, by the translations that every start applies to them, written out in today's spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lun.config.compat.upgrade import upgrade
from lun.config.reading.load_layers import read_layers
from lun.config.top_level import TOP_LEVEL
from lun.migrate.draft import Draft
from lun.other_trainers.counterparts import ProgramTable

_TRANSLATED = ProgramTable("translunar-diffusion", "", {})


def is_ours(content: Any) -> bool:
    """Whether a YAML file has the sections of a configuration, of 2022 or of today."""
    return isinstance(content, Mapping) and bool(content) and content.keys() <= {*TOP_LEVEL, "extends"}


def read(files: Sequence[str]) -> Draft:
    """The files in one, later ones over earlier; what has no successor is left out and reported.

    Raises `Fault` CFG01, CFG02, CFG03 or CFG08 for files that cannot be read, an ExceptionGroup of several.
    """
    merged, notes, refused = upgrade(read_layers(files).with_settings([]))
    draft = Draft(_TRANSLATED, settings=dict(merged.config))
    for note in notes:
        draft.note("same", note)
    for fault in refused:
        _drop(draft.settings, fault.where.partition("  (")[0].split("."))
        draft.note("none", "; ".join(filter(None, [fault.what, fault.why, fault.fix])))
    return draft


def _drop(settings: dict[str, Any], path: Sequence[str]) -> None:
    """Take out a setting; of `settings` only the outermost map is this draft's own, so that those below are copied."""
    for key in path[:-1]:
        if not isinstance(settings.get(key), Mapping):
            return
        settings[key] = dict(settings[key])
        settings = settings[key]
    settings.pop(path[-1], None)
