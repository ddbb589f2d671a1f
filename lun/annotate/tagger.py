"""Tags by a WD tagger (github.com/SmilingWolf): `model.onnx` with `selected_tags.csv` beside it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import isclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ldm.errors import Fault
from ldm.missing_packages import install_line

NETWORK, TAGS = "model.onnx", "selected_tags.csv"
GENERAL, CHARACTER, RATING = 0, 4, 9
_SHORTEST_NAME = 4
"""Letters from which on an underscore is a space: `^_^` and its kin are faces."""


@dataclass(frozen=True)
class KnownTags:
    """(n,) names in the order of the network's outputs, and what kind each is of."""

    names: list[str]
    kinds: NDArray[np.int64]


class Tagger:
    """Tags of each picture, the likeliest first; characters before all others.

    model       the folder with both files
    device      `cpu`, or `cuda` with onnxruntime-gpu
    threshold   probability from which on a tag is given
    characters  the same for names of characters, which are wrong more often
    rating      whether the likeliest rating is given as well, last
    underscores whether tags keep the underscores of the board
    exclude     tags that are never given
    """

    columns = ("tags",)

    def __init__(
        self,
        model: str,
        device: str | None = None,
        threshold: float = 0.35,
        characters: float = 0.85,
        rating: bool = False,
        underscores: bool = False,
        exclude: list[str] | None = None,
    ) -> None:
        for name, value in (("threshold", threshold), ("characters", characters)):
            if not 0 < value <= 1:
                raise Fault("CLI03", f"param {name} cannot be {value}", why="it takes a number above 0, up to 1")
        self.session = _session(Path(model) / NETWORK, device)
        self.known = read_tags(Path(model) / TAGS, underscores)
        self.entry = self.session.get_inputs()[0]
        self.rating = rating
        self.least = np.select(
            [self.known.kinds == GENERAL, self.known.kinds == CHARACTER], [threshold, characters], np.inf
        )
        self.least[np.isin(self.known.names, exclude or [])] = np.inf
        self._require_outputs()

    def _require_outputs(self) -> None:
        shape = self.entry.shape
        if len(shape) != 4 or shape[3] != 3 or not isinstance(shape[1], int) or shape[1] != shape[2]:
            why = f"its input is {shape}; a WD tagger takes (b, side, side, 3)"
            raise Fault("MOD02", f"{NETWORK} is no WD tagger", where="--model", why=why)

    def __call__(self, pictures: Sequence[Image.Image]) -> list[dict[str, Any]]:
        pixels = np.stack([squared(picture, self.entry.shape[1]) for picture in pictures])
        batches = [pixels] if not isinstance(self.entry.shape[0], int) else np.split(pixels, len(pixels))
        found = np.concatenate([self._found(one) for one in batches])
        if found.shape[1:] != self.least.shape:
            why = f"{found.shape[1:]} numbers, {len(self.least)} tags in {TAGS}"
            raise Fault("MOD02", f"{NETWORK} and {TAGS} are not of one tagger", where="--model", why=why)
        return [{"tags": self._likely_tags(one)} for one in found]

    def _found(self, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        """(b, n) probabilities. Raises MemoryError in the place of onnxruntime's own."""
        import onnxruntime

        try:
            return np.asarray(self.session.run(None, {self.entry.name: pixels})[0])
        except _errors(onnxruntime) as error:
            if "allocate memory" in str(error):
                raise MemoryError(str(error)) from error
            raise

    def _likely_tags(self, likely: NDArray[np.float32]) -> list[str]:
        rows = np.flatnonzero(likely >= self.least)
        order = np.lexsort((-likely[rows], self.known.kinds[rows] != CHARACTER))
        tags = [self.known.names[row] for row in rows[order].tolist()]
        ratings = np.flatnonzero(self.known.kinds == RATING)
        if self.rating and len(ratings):
            tags.append(self.known.names[int(ratings[likely[ratings].argmax()])])
        return tags


def squared(picture: Image.Image, side: int) -> NDArray[np.float32]:
    """(side, side, 3) BGR, 0 to 255: the picture in the middle of a white square, as the tagger was trained."""
    wide = max(picture.size)
    square = Image.new("RGB", (wide, wide), "white")
    square.paste(picture, ((wide - picture.width) // 2, (wide - picture.height) // 2))
    small = square.resize((side, side), Image.Resampling.BICUBIC)
    return np.ascontiguousarray(np.asarray(small, np.float32)[:, :, ::-1])


def read_tags(file: Path, underscores: bool) -> KnownTags:
    """`name` and `category` of each line. Raises `Fault` MOD01 where the file is not there, MOD02 for another one."""
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = [(row["name"], int(row["category"])) for row in csv.DictReader(lines)]
    except OSError as error:
        raise Fault("MOD01", f"the tagger has no {TAGS}", where=str(file), why=error.strerror or str(error)) from error
    except (KeyError, ValueError, TypeError, csv.Error) as error:
        why = f"it needs the columns name and category: {error}"
        raise Fault("MOD02", f"{TAGS} is not that of a WD tagger", where=str(file), why=why) from error
    names = [name if underscores or len(name) < _SHORTEST_NAME else name.replace("_", " ") for name, _ in rows]
    return KnownTags(names, np.array([kind for _, kind in rows], np.int64))


def _session(file: Path, device: str | None) -> Any:
    if not file.is_file():
        fix = "--model DIR, with a WD tagger: hf download SmilingWolf/wd-vit-tagger-v3 --local-dir DIR"
        raise Fault("MOD01", f"there is no {NETWORK} in {file.parent}", where="--model", fix=fix)
    try:
        import onnxruntime
    except ImportError as error:
        fix = install_line("onnxruntime")
        raise Fault(
            "DEP01", "tags need the package onnxruntime", where="--with tag", why=str(error), fix=fix
        ) from error
    try:
        return onnxruntime.InferenceSession(str(file), providers=_providers(onnxruntime, device))
    except _errors(onnxruntime) as error:
        why = str(error).splitlines()[0]
        raise Fault("MOD02", f"{file} cannot be read by onnxruntime", where="--model", why=why) from error


def _errors(onnxruntime: Any) -> tuple[type[Exception], ...]:
    """What it raises: classes that have no base of their own in common."""
    known = vars(onnxruntime.capi.onnxruntime_pybind11_state).values()
    return (RuntimeError, ValueError, *(kind for kind in known if isclass(kind) and issubclass(kind, Exception)))


def _providers(onnxruntime: Any, device: str | None) -> list[str]:
    there = onnxruntime.get_available_providers()
    cuda = "CUDAExecutionProvider"
    if device is None:
        return [name for name in (cuda, "CPUExecutionProvider") if name in there]
    if device.partition(":")[0] == "cuda" and cuda in there:
        return [cuda]
    if device != "cpu":
        why = f"onnxruntime has {', '.join(there)} here"
        raise Fault("DEV01", f"the device {device} cannot be used", where="--device", why=why, fix="--device cpu")
    return ["CPUExecutionProvider"]
