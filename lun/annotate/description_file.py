"""All that is known of a set's pictures in one `.jsonl` file, with new columns: whole, or under way beside it.

While it is under way, rows keyed by the sha256 of a picture's file are appended to `FILE.part`, a batch in one write.
Whatever a kill leaves behind its last whole line is dropped by the next start. Once all pictures have rows, the file
itself is written beside its place and moved there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ldm.errors import Fault
from ldm.files.replacing import flush_file, replacing
from ldm.operating_system import lock_for_process
from ldm.plain import parse_json
from ldm.shell import quoted
from lun.annotate.annotated_folder import AnnotatedFolder
from lun.data.metadata.description import READ_KEYS

METADATA = "metadata.jsonl"


class DescriptionFile:
    """`file` under way, for `folder`.

    made_by   what distinguishes an annotator and its settings, as plain JSON
    columns   what it says of pictures
    replace   columns that are known are annotated anew
    merge     a file that is there keeps its content under another name, and the new one takes its place

    Raises `Fault` CLI04 where the file is there, or one under way is not of this annotator.
    """

    keyed = True

    def __init__(
        self,
        file: Path,
        folder: AnnotatedFolder,
        made_by: Mapping[str, Any],
        columns: Sequence[str],
        replace: bool = False,
        merge: bool = False,
    ) -> None:
        self.file, self.folder, self.columns = file, folder, list(columns)
        self.replace, self.merge = replace, merge
        self.part = file.with_name(file.name + ".part")
        if file.exists() and not merge:
            fix = "--merge (it is kept under another name), or -o ANOTHER.jsonl"
            raise Fault("CLI04", f"{file} is there already", where="-o", fix=fix)
        self.rows: dict[str, dict[str, Any]] = {}
        self._keys: dict[int, str] = {}
        self._open = self._begun({**made_by, "replace": replace})

    def _begun(self, made_by: Mapping[str, Any]) -> BinaryIO:
        """The file under way, at its end, with its rows read."""
        self.part.parent.mkdir(parents=True, exist_ok=True)
        file = open(os.open(self.part, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)  # noqa: SIM115, held until all is done
        try:
            lock_for_process(file)
        except OSError as error:
            raise Fault("CLI04", f"another process writes {self.part}", where="-o", why=str(error)) from error
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if lines and _parsed(lines[0]) != made_by:
            why = "its weights or settings are not those of now"
            fix = f"rm {quoted(self.part)}, or the settings of then, or -o ANOTHER.jsonl"
            raise Fault("CLI04", f"{self.part} was begun by another annotator", where="-o", why=why, fix=fix)
        for row in map(_parsed, lines[1:]):
            if isinstance(row, dict) and isinstance(row.get("sha256"), str):
                self.rows[row["sha256"]] = {name: row[name] for name in self.columns if name in row}
        file.truncate(len(whole))
        file.seek(len(whole))
        if not lines:
            file.write(_line(made_by))
        return file

    def has(self, index: int, key: str) -> bool:
        self._keys[index] = key
        return key in self.rows or not (self.replace or self.lacks(index))

    def lacks(self, index: int) -> bool:
        """Whether the folder does not know all columns of a picture."""
        known = self.folder.description(index)
        return not all(_is_described(known, name) for name in self.columns)

    def add(self, rows: Sequence[tuple[int, str, Mapping[str, Any]]]) -> None:
        self._open.write(b"".join(_line({"sha256": key, **columns}) for _, key, columns in rows))
        flush_file(self._open)
        self.rows |= {key: dict(columns) for _, key, columns in rows}

    def finish(self) -> list[str]:
        kept = self._step_aside()
        with replacing(self.file) as out:
            for index in range(len(self.folder)):
                out.write(_line(self._described(index)))
        self.part.unlink()
        self._open.close()
        unread = [name for name in self.columns if _key(name) not in READ_KEYS]
        return [
            f"wrote    {self.file}: {len(self.folder):,} pictures{kept}",
            *([f"note: {', '.join(unread)}: training reads no such column"] if unread else []),
            *self._how_to_read(),
        ]

    def _described(self, index: int) -> dict[str, Any]:
        entry = self.folder.description(index)
        for name, value in self.rows.get(self._keys.get(index, ""), {}).items():
            if self.replace or not _is_described(entry, name):
                entry[_key(name)] = value
        return entry

    def _step_aside(self) -> str:
        """Give the file that is there another name; a line to log."""
        if not self.file.exists():
            return ""
        if not self.merge:
            raise Fault("CLI04", f"{self.file} was written meanwhile", where="-o", fix="--merge, or -o ANOTHER.jsonl")
        number = 1
        while (kept := self.file.with_name(f"{self.file.name}.before-{number}")).exists():
            number += 1
        os.link(self.file, kept)
        return f" (the former one is {kept.name})"

    def _how_to_read(self) -> list[str]:
        """What makes training read the file, where nothing but its place does not."""
        place = self.folder.root / METADATA
        if self.file.resolve() != place.resolve():
            return [f"train    training reads it as {place}, with layout: imagefolder in the params of the set"]
        return ["train    layout: imagefolder in the params of the set makes sure that this file is read"]


def _is_described(description: Mapping[str, Any], column: str) -> bool:
    """Whether there is more than an empty text or list."""
    return description.get(_key(column)) not in (None, "", [])


def _key(column: str) -> str:
    return "text" if column == "caption" else column


def _line(row: Mapping[str, Any]) -> bytes:
    """Text that is no UTF-8, as in odd file names, is escaped."""
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(row).encode() + b"\n"


def _parsed(line: bytes) -> Any:
    try:
        return parse_json(line)
    except ValueError:
        return None
