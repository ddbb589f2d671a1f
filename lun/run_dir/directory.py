"""The run directory: everything that a run writes, in one place, made once for all ranks."""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.files.replacing import replace_link, replace_text
from ldm.operating_system import is_folder_link
from ldm.plain import read_json
from lun.run_dir.claim import claim_folder
from lun.run_dir.ranks import process_rank
from lun.run_dir.run_json import RunRecord

log = logging.getLogger(__name__)

VARIABLE = "LUN_RUN_DIRECTORY"
LATEST = "latest"


def stamp(now: datetime) -> str:
    """A time that sorts as text and may stand in any file name: 2026-11-20T11-13-02."""
    return now.strftime("%Y-%m-%dT%H-%M-%S")


@dataclass(frozen=True)
class RunDirectory:
    """A directory with `configs/` beside `checkpoints/`, and whatever callbacks and loggers add."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def configs(self) -> Path:
        return self.path / "configs"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def images(self) -> Path:
        return self.path / "images"

    @property
    def data(self) -> Path:
        """What is known of the pictures: rejected ones, counts of tags."""
        return self.path / "data"

    @property
    def console(self) -> Path:
        return self.path / "console.log"

    @property
    def resolved_config(self) -> Path:
        return self.configs / "resolved.yaml"

    @property
    def record_file(self) -> Path:
        return self.path / "run.json"

    @classmethod
    def around(cls, file: Path, *folders: str) -> "RunDirectory | None":
        """The run in one of whose `folders` a file lies, by the `configs/` beside that folder; None for any other."""
        homes = [folder.parent for folder in file.absolute().parents if folder.name in folders]
        return next((cls(home) for home in homes if (home / "configs").is_dir()), None)

    @classmethod
    def create(
        cls,
        logdir: Path,
        name: str,
        data_root: str | None = None,
        datadir_in_name: bool = False,
        postfix: str = "",
        *,
        now: datetime,
    ) -> "RunDirectory":
        """A new directory `<logdir>/[<data folder>_]<now>[_<name>]<postfix>`; an existing one is never reused.

        Rank 0 makes it and leaves its path in the environment, from which the other ranks take it: those that Lightning
        starts inherit it, those of another launcher need it set for all beforehand.
        """
        chosen = os.environ.get(VARIABLE)
        if process_rank() != 0:
            return cls(_given(chosen))
        prefix = Path(os.path.normpath(data_root)).name if datadir_in_name and data_root else ""
        parts = [part for part in (prefix, stamp(now), name) if part]
        wanted = logdir / f"{'_'.join(parts)}{postfix}"
        if chosen and not Path(chosen).exists():
            wanted = Path(chosen)
        run = cls(claim_folder(wanted, "--logdir").absolute())
        run.configs.mkdir()
        run.checkpoints.mkdir()
        run.announce()
        return run

    def announce(self) -> None:
        """Let the ranks that are started from here know which directory it is."""
        os.environ[VARIABLE] = str(self.path)

    def link_latest(self) -> None:
        """Point `latest` beside this directory to it; something else of that name is left alone."""
        link = self.path.parent / LATEST
        if link.exists() and not is_folder_link(link):
            log.info("note: %s is not a link, so it was left as it is", link)
            return
        try:
            replace_link(link, self.name)
        except OSError as error:
            log.info("note: no link %s: %s", link, error.strerror)

    def save_configs(self, project: str, lightning: str, resolved: str, *, now: datetime) -> None:
        """Write the YAML texts of a start: its two halves under its time, and what resulted as `resolved.yaml`.

        A former `resolved.yaml` stays under the time at which it was written, as a copy: a crash at any moment leaves
        a run that can be resumed.
        """
        former = self.resolved_config
        if former.exists():
            written = datetime.fromtimestamp(former.stat().st_mtime)
            replace_text(_free(self.configs / f"{stamp(written)}-resolved.yaml"), former.read_text(encoding="utf-8"))
        replace_text(self.configs / f"{stamp(now)}-project.yaml", project)
        replace_text(self.configs / f"{stamp(now)}-lightning.yaml", lightning)
        replace_text(former, resolved)

    def record(self) -> RunRecord | None:
        """What `run.json` says about the newest start; None where there is none or it cannot be read."""
        rows = self._rows()
        return RunRecord.of(rows) if rows else None

    def write_record(self, record: RunRecord) -> None:
        """Store `record` in `run.json`: in place of that of the same attempt, earlier attempts below it."""
        rows = self._rows()
        earlier = rows.pop("earlier", [])
        earlier = earlier if isinstance(earlier, list) else []
        if rows and rows.get("attempt") != record.attempt:
            earlier = [rows, *earlier]
        text = json.dumps(asdict(record) | {"earlier": earlier}, indent=2, ensure_ascii=False)
        replace_text(self.record_file, text + "\n")

    def _rows(self) -> dict[str, Any]:
        try:
            rows = read_json(self.record_file)
        except (OSError, ValueError):  # a 2022 run has none
            return {}
        return dict(rows) if isinstance(rows, Mapping) else {}


def _free(path: Path) -> Path:
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free


def _given(chosen: str | None) -> Path:
    if chosen:
        return Path(chosen)
    raise Fault(
        "CLI04",
        "this rank does not know the run directory",
        where=f"environment variable {VARIABLE}",
        why="it was started by another launcher than rank 0, so the name that rank 0 chose did not reach it",
        fix=f"export {VARIABLE}=logs/my-run   before the launcher, for all ranks",
    )
