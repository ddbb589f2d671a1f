"""What goes to the hub: exported weights, what has to lie beside them, and their card; never anything else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ldm.convert.model_card import PAGE, PICTURE, says_no_licence
from ldm.convert.written_folder import MARK, files_in, listed_files
from ldm.errors import Fault
from ldm.files.sniff import METADATA, safetensors_header
from ldm.files.weights_path import missing
from ldm.shell import quoted

EXPORTS = "exports"
KIND = "modelspec.architecture"
SAFE = ".safetensors"
REVEALING = {
    "ss_tag_frequency": "the tags of the pictures and how often each occurs",
    "modelspec.thumbnail": "a small sample",
    "lun.run": "the name of the run",
}
"""Keys of metadata that say something of the run or its data."""


@dataclass(frozen=True)
class Publication:
    """Files by the names that they get on the hub.

    source  the file or folder that they are
    card    the page among them, None where there is none
    """

    source: Path
    files: dict[str, Path]
    card: Path | None

    @classmethod
    def of(cls, given: str) -> Publication:
        """Of an exported file or folder, or the newest in a run's `exports`.

        Raises `Fault` MOD01 where there is nothing, MOD03 for what is no export, or could run code in who opens it.
        """
        path = Path(given)
        if not path.exists():
            raise missing(path)
        path, words = _newest_export(path) if (path / "configs").is_dir() else (path, [])
        if path.is_dir():
            files = _of_folder(path)
            return cls(path, files, files.get(PAGE))
        if path.suffix != SAFE:
            raise _unsafe(path)
        safetensors_header(path)
        files = {one.name: one for one in (path, *_beside(path), *words)}
        card = path.with_suffix(".md")
        return cls(path, files | {PAGE: card}, card) if card.is_file() else cls(path, files, None)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files.values())

    @property
    def lacks_a_licence(self) -> bool:
        """Whether its card waits for a person to say the licence."""
        return self.card is not None and says_no_licence(self.card)

    def remarks(self) -> Iterator[str]:
        """What a person should know before it goes, one sentence each."""
        if self.card is None:
            yield f"no card lies beside {self.source}: the hub will show an empty page (an export of a run writes one)"
        if self.lacks_a_licence:
            yield f"the licence waits to be filled in, at the top of {self.card}"
        found = {
            key for file in self.files.values() if file.suffix == SAFE for key in _metadata(file) if key in REVEALING
        }
        if found:
            yield f"the weights' metadata reveal {', '.join(REVEALING[key] for key in sorted(found))}"


def _newest_export(run: Path) -> tuple[Path, list[Path]]:
    """With the embeddings that were exported beside it, as `NAME-WORD.safetensors`."""
    folder = run / EXPORTS
    found = [one for one in folder.iterdir() if _is_export(one)] if folder.is_dir() else []
    if not found:
        out = f"{run.resolve().name}{SAFE}"
        fix = f"python -m lun.convert {quoted(run, out)} --to ldm --dtype fp16\nthen give {quoted(out)} for the run"
        raise Fault("MOD01", f"{run} has exported no weights", why=f"nothing lies in {folder}", fix=fix)
    words = [one for one in found if one.is_file() and str(_metadata(one).get(KIND)).endswith("/textual-inversion")]
    newest = max([one for one in found if one not in words] or words, key=lambda one: (one.stat().st_mtime, one.name))
    return newest, [one for one in words if one.stem.startswith(f"{newest.stem}-")]


def _is_export(path: Path) -> bool:
    return (path / MARK).is_file() if path.is_dir() else path.suffix == SAFE and not path.name.startswith(".")


def _of_folder(folder: Path) -> dict[str, Path]:
    listed = listed_files(folder)
    if listed is None:
        fix = f"python -m lun.convert {quoted(folder)} OUT --to diffusers"
        raise Fault("MOD03", f"{folder} is no folder that an export wrote", why=f"it holds no {MARK}", fix=fix)
    there = files_in(folder)
    if lost := sorted(listed - there):
        raise Fault("MOD03", f"{folder} is not whole", where=lost[0], why="it is not there", fix="export it again")
    found = {name: folder / name for name in sorted(there & {*listed, PAGE, PICTURE})}
    for path in found.values():
        if path.is_symlink() or not path.is_file():
            why = "what lies elsewhere is not sent"
            raise Fault("MOD03", f"{path} is no ordinary file", why=why, fix="export it again")
    return found


def _beside(file: Path) -> Iterator[Path]:
    """The YAML that A1111 needs for some models, and the card's picture."""
    yield from (one for ending in (".yaml", ".png") if (one := file.with_suffix(ending)).is_file())


def _metadata(file: Path) -> dict[str, str]:
    metadata = safetensors_header(file).get(METADATA)
    return metadata if isinstance(metadata, dict) else {}


def _unsafe(path: Path) -> Fault:
    out = path.with_suffix(SAFE).name
    why = f"only {SAFE} and folders of them are sent: of anything else opening it may run code"
    fix = f"python -m lun.convert {quoted(path, out)} --to ldm\nthen give {quoted(out)}"
    return Fault("MOD03", f"{path} is no file for the hub", why=why, fix=fix)
