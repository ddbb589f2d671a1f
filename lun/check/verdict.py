"""What `--check` says of settings, remembered of those without faults: their next check imports no torch."""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping
from typing import Any

from ldm.admission import granted
from ldm.errors import Fault
from ldm.remembered import remembered
from lun.check.missing_here import is_lacking, unchecked
from lun.config.suggestions import raise_all
from lun.console import fault_report
from lun.run.required_files import missing_files
from lun.run.settings import Settings

FOLDERS = ("data_root", "folder")
"""Settings whose folders no check looks into: pictures and caches."""


def check(settings: Settings, faults: list[Fault], has_time_limit: bool, resumed: bool) -> None:
    """Judge the settings alone, of which `faults` are known: what they name and this machine lacks is a note.

    Raises the other faults, an ExceptionGroup of several.
    """
    files: list[Fault] = []
    if all(map(is_lacking, faults)):
        settings.say_notes()
        files = missing_files(settings.config, resumed)
        faults = [*faults, *_construction_faults(settings, faults, has_time_limit, resumed)]
    notes = [unchecked(fault) for fault in faults if is_lacking(fault)] + files
    fault_report.show(list({str(note): note for note in notes}.values()), "note")
    raise_all([fault for fault in faults if not is_lacking(fault)])
    print("the configuration has no faults")


def _construction_faults(settings: Settings, known: list[Fault], has_time_limit: bool, resumed: bool) -> list[Fault]:
    """Those of `lun.check.construction_faults`; none of settings of which an earlier check had nothing to say."""

    def find() -> None:
        from lun.check.construction_faults import construction_faults  # torch

        said = _Said()
        logging.getLogger().addHandler(said)
        try:
            faults = construction_faults(settings, has_time_limit, resumed)
        finally:
            logging.getLogger().removeHandler(said)
        if known or faults or said.anything:
            raise _NotToRemember(faults)

    situation = [has_time_limit, resumed, granted(), platform.node()]
    try:
        remembered("check", [_without_folders(settings.config), situation], find)
    except _NotToRemember as found:
        return found.faults
    return []


class _NotToRemember(Exception):
    """There is something to say of the settings, each time that they are checked."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(faults)
        self.faults = faults


class _Said(logging.Handler):
    """Whether anything was logged that a person would see."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.anything = False

    def emit(self, record: logging.LogRecord) -> None:
        self.anything = True


def _without_folders(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_folders(item) for key, item in value.items() if key not in FOLDERS}
    return [_without_folders(item) for item in value] if isinstance(value, list) else value
