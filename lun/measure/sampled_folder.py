"""A folder of samples: the pictures, and what each was asked to show."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import Fault
from ldm.plain import parse_json
from lun.data.index.listing import EXTENSIONS

if TYPE_CHECKING:
    from PIL import Image

SHEET = "sheet.png"
"""What `lun.sample` puts beside its pictures: all of them on one."""


@dataclass(frozen=True)
class SampledFile:
    """A sample; `prompt` None where nothing has it."""

    path: Path
    prompt: str | None


def sampled_files(folder: Path) -> list[SampledFile]:
    """The samples of a folder by name, without the sheet of them. Raises `Fault` DAT01 or DAT06."""
    if not folder.is_dir():
        raise Fault("DAT01", f"there is no folder {folder}", where="SAMPLES", fix="python -m lun.sample RUN -o SAMPLES")
    endings = {f".{one}" for one in EXTENSIONS}
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in endings and path.name != SHEET)
    if not paths:
        fix = f"a folder with files that end in {' '.join(sorted(endings))}, at its top"
        raise Fault("DAT02", f"there are no samples in {folder}", where="SAMPLES", fix=fix)
    return [SampledFile(path, _prompt(path)) for path in paths]


def _prompt(path: Path) -> str | None:
    """From a text file beside it, else from the picture, where `lun.sample` and A1111's web UI write it."""
    with suppress(OSError, UnicodeDecodeError):
        return path.with_suffix(".txt").read_text("utf-8").strip()
    from lun.data.images.decode import opened  # with torch, which takes seconds

    with opened(path) as image:
        return _of_lun(image) or _of_a1111(image)


def _of_lun(image: Image.Image) -> str | None:
    with suppress(ValueError, TypeError, KeyError):
        prompt = parse_json(image.info["lun"])["prompt"]
        return prompt if isinstance(prompt, str) else None
    return None


def _of_a1111(image: Image.Image) -> str | None:
    text = image.info.get("parameters")
    if not isinstance(text, str):
        return None
    return text.partition("\nNegative prompt: ")[0].partition("\nSteps: ")[0].strip() or None
