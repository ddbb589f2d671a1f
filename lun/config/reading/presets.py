"""The configs that are shipped, as a list to choose from: what each does, and which models it fits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ldm.plain import read_plain_text
from lun.config.reading.yaml_files import HOME

GROUPS = {"models": "one of these to start from", "data": "how the pictures lie", "options": "any of these on top"}
FITS = re.compile(r"# Fits: (.*)")


@dataclass(frozen=True)
class Preset:
    """A config of `configs/`; `fits` are the models that it is for, empty for all."""

    name: str
    group: str
    about: str
    fits: tuple[str, ...] = ()


def presets(home: Path = HOME) -> list[Preset]:
    """All presets, by group and name."""
    files = [path for group in GROUPS for path in (home / "configs" / group).glob("*.yaml")]
    presets = [preset_of(path) for path in files]
    return sorted(presets, key=lambda preset: (list(GROUPS).index(preset.group), _sorting(preset.name)))


def listing() -> str:
    """What `--list-presets` prints."""
    known = presets()
    width = max(len(preset.name) for preset in known)
    lines: list[str] = []
    for group, title in GROUPS.items():
        lines += [f"{group}: {title}", *(_line(preset, width) for preset in known if preset.group == group), ""]
    example = "python main.py --base sd15 bf16 --data_root DIR -t"
    return "\n".join([*lines, f"for example:  {example}", "what results:  ... --print-config", ""])


def _sorting(name: str) -> tuple[int, str]:
    """Names by letters, those that begin with a number (8gb, 16gb) after them and by that number."""
    digits = re.match(r"\d*", name)
    return (int(digits[0]) if digits and digits[0] else 0), name


def _line(preset: Preset, width: int) -> str:
    fits = f"  ({', '.join(preset.fits)})" if preset.fits else ""
    return f"  {preset.name:<{width}}  {preset.about}{fits}"


def preset_of(path: Path) -> Preset:
    """The preset in a file, whose folder is its group."""
    text = read_plain_text(path)
    fits = FITS.search(text)
    about = text.splitlines()[0].removeprefix("# ")
    return Preset(path.stem, path.parent.name, about, tuple(fits[1].split()) if fits else ())
