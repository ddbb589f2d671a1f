"""Snapshots of an average: fp16 differences to the weights that training started from.

A fine-tune moves weights by a percent or so. Whole weights in fp16 would spend their bits on what did not move: of what
did, 2 to 19 % would be lost, where differences lose less than 0.1 %. Each tensor is divided by a power of two, which
rounds nothing and keeps small differences within the range of fp16.
"""

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ldm.errors import Fault
from ldm.files.read import hash_of_tensors
from ldm.files.write import HASH, write_safetensors
from ldm.plain import fits, parse_json, record_of, require_ordinary

FORMAT = "ema-snapshot-1"
KIND = "delta-fp16-pow2"
LARGEST_EXPONENT = 300  # beyond what a float32 and its difference can have
WIDEST = 0.2887  # the relative width of a flat average, 12^-1/2, rounded up
LARGEST_TIME = 2**53  # steps that a float64 counts one by one
_LARGEST = 15  # differences are scaled below 2^15, half of what fp16 can hold


@dataclass(frozen=True)
class About:
    """What a snapshot is of.

    track, sigma_rel     the power-function average and its relative width
    last_update          the step whose weights it took in last: its time
    t_offset             the step from which its law counts
    every                steps between two updates
    base_sha256          of the file that holds the weights it is a difference to
    attempt, began       which start of the run wrote it, and the step at which that one began
    """

    track: str
    sigma_rel: float
    last_update: int
    t_offset: int
    every: int
    base_sha256: str
    attempt: int = 1
    began: int = 0

    @property
    def time(self) -> int:
        """Steps that its law has seen."""
        return self.last_update - self.t_offset

    def require_possible(self) -> None:
        """Raise ValueError for a width or a time that no average has."""
        if not 0 < self.sigma_rel <= WIDEST:
            raise ValueError(f"its width is {self.sigma_rel:g}")
        if not 0 < self.time <= LARGEST_TIME:
            raise ValueError("it is of a time at which its law had not begun, or of none")


class TensorFile(AbstractContextManager["TensorFile"], Mapping[str, Tensor]):
    """The tensors of a .safetensors file, read one at a time when asked for. `Fault` MOD02 if it is none."""

    def __init__(self, path: Path) -> None:
        try:
            require_ordinary(path)
            self._file: Any = safe_open(path, framework="pt")
        except (SafetensorError, OSError, ValueError) as error:
            raise Fault("MOD02", f"{path} is not a whole .safetensors file", why=str(error)) from error
        self.path = path
        self.metadata: dict[str, str] = self._file.metadata() or {}
        self._names: list[str] = list(self._file.keys())

    def __getitem__(self, name: str) -> Tensor:
        tensor: Tensor = self._file.get_tensor(name)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file = None


class Snapshot(TensorFile):
    """A snapshot's file: `about` it, and its differences as fp32 by canonical name on disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if self.metadata.get("format") != FORMAT or self.metadata.get("kind") != KIND:
            format = f"{self.metadata.get('format')}, {self.metadata.get('kind')}"
            raise Fault("MOD02", f"{path} is not a snapshot of an EMA", why=f"its format is {format}")
        try:
            self.about = record_of(About, parse_json(self.metadata["about"]))
            self._exponents = _exponents_in(parse_json(self.metadata["exponents"]))
            if self._exponents.keys() != set(self) or self.metadata["crc32"] != _checksum(self.metadata):
                raise ValueError("it does not match its checksum")
            self.about.require_possible()
        except (KeyError, ValueError, TypeError) as error:
            raise Fault("MOD02", f"{path} is a damaged snapshot of an EMA", why=f"its header: {error}") from error
        self._is_whole = False

    def require_whole(self) -> None:
        """Raise `Fault` MOD02 if its tensors are not those that were written; reads all of it, once."""
        if not self._is_whole and self.metadata.get(HASH) != f"0x{hash_of_tensors(self.path)}":
            raise Fault(
                "MOD02",
                f"{self.path} is a damaged snapshot of an EMA",
                why="its tensors do not match the hash in its header",
                fix="move it away: the other snapshots serve without it",
            )
        self._is_whole = True

    def __getitem__(self, name: str) -> Tensor:
        return torch.ldexp(super().__getitem__(name).float(), torch.tensor(self._exponents[name]))


def write_snapshot(path: Path, average: Mapping[str, Tensor], base: Mapping[str, Tensor], about: About) -> None:
    """Write `average` (fp32) as differences to `base`, one tensor at a time; whole or absent. OSError as it comes."""
    differences = _Differences(average, base)
    metadata = {
        "format": FORMAT,
        "kind": KIND,
        "schedule": "power",
        "unit": "steps",
        "about": json.dumps(asdict(about)),
        "exponents": json.dumps(differences.exponents),
        HASH: "",  # computed as it is written
    }
    metadata["crc32"] = _checksum(metadata)
    write_safetensors(path, differences, metadata)


def _exponents_in(value: object) -> dict[str, int]:
    if not fits(value, dict[str, int]) or any(abs(exponent) > LARGEST_EXPONENT for exponent in value.values()):  # type: ignore[attr-defined]
        raise ValueError("its exponents are no powers of two")
    return value  # type: ignore[return-value]


def _checksum(metadata: Mapping[str, str]) -> str:
    """Of what a header says; the hash beside it is that of the tensors."""
    return f"{zlib.crc32((metadata['about'] + metadata['exponents']).encode()):08x}"


class _Differences(Mapping[str, Tensor]):
    """Scaled fp16 differences, made when asked for; the last one is kept, because a writer asks several times."""

    def __init__(self, average: Mapping[str, Tensor], base: Mapping[str, Tensor]) -> None:
        self._average = average
        self._base = base
        self._last: tuple[str, Tensor] = ("", torch.empty(0))
        self.exponents = {name: _exponent(self._difference(name)) for name in average}

    def __getitem__(self, name: str) -> Tensor:
        if self._last[0] != name:
            scale = torch.tensor(-self.exponents[name])
            self._last = (name, torch.ldexp(self._difference(name), scale).half())
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._average)

    def __len__(self) -> int:
        return len(self._average)

    def _difference(self, name: str) -> Tensor:
        return self._average[name] - self._base[name].float()


def _exponent(difference: Tensor) -> int:
    """The e for which difference * 2^-e stays below 2^15 and uses what fp16 can hold."""
    largest = float(difference.abs().max()) if difference.numel() else 0.0
    return math.frexp(largest)[1] - _LARGEST if largest else 0
