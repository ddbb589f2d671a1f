"""Pickles that grow without end are refused before they are read, in a moment; real ones are not."""

import io
import pickletools
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch import _weights_only_unpickler

from ldm.errors import Fault
from ldm.files.pickles import require_bounded
from ldm.files.read import read_outline, read_state_dict

START, STOP = b"\x80\x02", b"."


def doubled(levels: int, open: bytes = b")", double: bytes = b"\x86") -> bytes:
    """A tuple of two times the same tuple, and so on."""
    return open + b"".join(b"q" + bytes([n]) + b"h" + bytes([n]) + double for n in range(levels))


def deep(levels: int) -> bytes:
    return b")" + b"\x85" * levels


BOMBS = {
    "a key of 2^60 tuples": START + b"}" + doubled(60) + b"K\x01s" + STOP,
    "keys of maps that nothing holds": START + (b"}" + doubled(22) + b"K\x01sq\xff") * 8 + STOP,
    "a tuple 100,000 levels deep": START + b"}" + deep(100_000) + b"K\x01s" + STOP,
    "a list that holds itself": START + b"]q\x00h\x00a" + STOP,
    "a key before an opcode of which nothing is known": START + b"}" + doubled(60) + b"K\x01s" + b"0" + STOP,
    "a broken stream": START + b"X\xff\xff\xff\x7f",
    "more taken than there is": START + b"\x87" + STOP,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_pickle_without_end_is_refused(name: str) -> None:
    with pytest.raises(ValueError):
        require_bounded(io.BytesIO(BOMBS[name]))


TAKEN = sorted({code.name for code in pickletools.opcodes} & set(vars(_weights_only_unpickler)) - {"STOP"})
BEFORE = {"BINGET": b")q\x00", "LONG_BINGET": b")q\x00", "TUPLE": b"(", "APPENDS": b"](", "SETITEMS": b"}("}


@pytest.mark.parametrize("name", TAKEN)
def test_no_opcode_that_torch_takes_hides_what_comes_after_it(name: str) -> None:
    code = next(code for code in pickletools.opcodes if code.name == name)
    size = code.arg.n if code.arg else 0
    argument = b"torch\nTensor\n" if name == "GLOBAL" else bytes(size if size >= 0 else {-2: 1, -4: 4}[size])
    start = START + BEFORE.get(name, b"}" + b")" * 3) + code.code.encode("latin-1") + argument
    with pytest.raises(ValueError, match="nested deeper"):
        require_bounded(io.BytesIO(start + deep(300) + STOP))


@pytest.mark.parametrize("zipped", [True, False])
def test_a_training_checkpoint_is_not(zipped: bool) -> None:
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    content = {
        "state_dict": OrderedDict(model.state_dict()),
        "optimizer_states": [optimizer.state_dict()],
        "x": {(1, 2): 3},
    }
    file = io.BytesIO()
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    if not zipped:
        file.seek(0)
        for _ in range(5):
            require_bounded(file)
        return
    with zipfile.ZipFile(file) as archive:
        require_bounded(archive.open(next(name for name in archive.namelist() if name.endswith("data.pkl"))))


def archive(path: Path, parts: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", how) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return path


@pytest.mark.parametrize("read", [read_outline, read_state_dict])
@pytest.mark.parametrize(
    "parts",
    [
        {"a/data.pkl": BOMBS["a key of 2^60 tuples"], "a/version": b"3"},
        {"a/data.pkl": START + b"}" + STOP, "a/DATA.PKL": BOMBS["a key of 2^60 tuples"], "a/version": b"3"},
        {"a/data.pkl": BOMBS["a tuple 100,000 levels deep"], "a/version": b"3"},
    ],
)
def test_a_file_with_such_a_pickle_is_refused_in_words(tmp_path: Path, parts: dict[str, bytes], read: object) -> None:
    with pytest.raises(Fault, match="MOD02"):
        read(archive(tmp_path / "x.ckpt", parts))  # type: ignore[operator]


def test_a_torch_file_that_was_packed_is_not_unpacked(tmp_path: Path) -> None:
    """A megabyte of it can be a gigabyte of zeros."""
    file = archive(tmp_path / "x.ckpt", {"a/data.pkl": b"}.", "a/data/0": bytes(1 << 20)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(Fault, match="packed again"):
        read_state_dict(file)


def test_a_tensor_that_is_larger_than_its_numbers_is_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1).expand(10**9, 10**3)}, tmp_path / "x.ckpt")
    with pytest.raises(Fault, match="larger than what is stored"):
        read_state_dict(tmp_path / "x.ckpt")


ONE = '{"a":{"dtype":"F32","shape":[1],"data_offsets":%s}}'
HEADERS = [
    ONE % "[0]",
    ONE % "[0,4,8]",
    ONE % '["0","4"]',
    ONE % "[-4,0]",
    ONE % "[0,1e400]",
    ONE % f"[0,{10**400}]",
    ONE % ("[0,1" + "0" * 5000 + "]"),
    ONE % f"[0,{2**63}]",
    ONE % f"[0,{2**64 - 4}]",
    ONE % "[4,0]",
    ONE % "[true,4]",
    ONE % "null",
    '{"a":' * 20_000 + "}" * 20_000,
    '{"__metadata__":{"a":1}}',
    '{"__metadata__":{"a":{"b":[]}}}',
    '{"a":[]}',
    ONE % "[0,4]" + " " * 3 + "x",
]


@pytest.mark.parametrize("text", HEADERS, ids=range(len(HEADERS)))
def test_a_header_that_makes_no_sense_is_refused_in_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text.encode() + bytes(4))
    with pytest.raises(Fault, match="MOD02"):
        read_state_dict(path)
