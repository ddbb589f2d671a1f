"""One file that describes many pictures: `metadata.jsonl` and `metadata.csv`, one big `.jsonl`, parquet."""

import csv
import io
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ldm.errors import Fault
from ldm.missing_packages import install_line
from ldm.plain import parse_json
from lun.data.index.dir_handle import open_file
from lun.data.index.store import Stamps, indexed
from lun.data.layouts.folder_contents import FolderContents, LayoutName
from lun.data.metadata.description import READ_KEYS, add_record, json_reader
from lun.data.metadata.picture_table import Table, concatenated
from lun.data.metadata.table_builder import Rows

IMAGEFOLDER = ("metadata.jsonl", "metadata.csv")

Record = tuple[int, Any]
"""(line, what it says; None where that cannot be read)"""


def read_described(root: Path, files: list[str], layout: LayoutName, words: str) -> FolderContents:
    """The pictures that `files` (relative to the root) describe; their paths count from the file's own folder."""
    tables, reused = [], True
    for file in files:
        stat = (root / file).stat()
        stamps = Stamps.of([file], np.array([[stat.st_size, stat.st_mtime_ns]], np.int64))
        table, known = indexed(root, file.replace("/", "+"), stamps, partial(_all_of, root, file), whole=True)
        tables.append(table)
        reused &= known
    table = concatenated(tables)
    return FolderContents(layout, f"{words}, {len(table):,} entries", table, reused=reused, paths_from_metadata=True)


def _all_of(root: Path, file: str, rows: np.ndarray) -> Table:
    return parse(root, file)


def parse(root: Path, file: str) -> Table:
    """One row for each entry of `file`. Raises `Fault` DEP01 (parquet without pyarrow), DAT03 (broken)."""
    rows = Rows()
    folder = file.rpartition("/")[0]
    for line, record in _READERS[file.rpartition(".")[2].lower()](root / file):
        add_record(rows, record, file, line, folder)
    return Table.of(rows.packed())


def _jsonl(path: Path) -> Iterator[Record]:
    read = json_reader()
    with open_file(path) as file:
        for line, text in enumerate(file, start=1):
            text = text.removeprefix(b"\xef\xbb\xbf").strip()
            if text:
                yield line, _record(read, text)


def _record(read: Callable[[bytes], Any], text: bytes) -> Any:
    try:
        return read(text)
    except (ValueError, RecursionError):
        return None


def _csv(path: Path) -> Iterator[Record]:
    """Columns by the names of the first line; a cell that is a JSON list counts as one."""
    with open_file(path) as file:
        data = file.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a cell of any length, where 128 KiB is the default
    lines = csv.DictReader(io.StringIO(text, newline=""))
    while True:
        try:
            row = next(lines)
        except StopIteration:
            return
        except csv.Error:
            yield lines.line_num, None
        else:
            yield lines.line_num, {name: _cell(cell) for name, cell in row.items() if name and cell}


def _cell(cell: str) -> Any:
    if not cell.startswith("["):
        return cell
    try:
        return parse_json(cell)
    except ValueError:
        return cell


def _parquet(path: Path) -> Iterator[Record]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise Fault(
            "DEP01",
            f"{path.name} cannot be read without pyarrow",
            where=str(path),
            why=str(error),
            fix=install_line("pyarrow"),
        ) from error
    try:
        file = parquet.ParquetFile(path)
        fields = [field for field in file.schema_arrow if field.name in READ_KEYS]
        # Of a picture that lies in the file itself, as hubs have it, its name alone is read.
        wanted = [f"{field.name}.path" if hasattr(field.type, "fields") else field.name for field in fields]
        line = 0
        for batch in file.iter_batches(columns=wanted):  # others may be large, such as the pictures themselves
            for record in batch.to_pylist():
                line += 1
                yield line, record
    except (OSError, ValueError) as error:  # pyarrow's own errors derive from these
        raise Fault("DAT03", f"{path} is no parquet file that can be read", where=str(path), why=str(error)) from error


_READERS: dict[str, Callable[[Path], Iterator[Record]]] = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}
