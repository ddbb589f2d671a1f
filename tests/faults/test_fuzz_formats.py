"""Anything at all as weights file, folder of a pipeline, list of prompts or line of descriptions: answered, soon."""

import io
import json
import random
import struct
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from PIL import Image
from support.board import put_board
from support.fuzzing import COUNTS, SCALARS, TORN, VALUES, fuzz, places, put, require_answer

from ldm.convert.diffusers_folder import read_pipeline
from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from ldm.files.read import read_outline, read_state_dict
from ldm.files.weights_location import find_weights
from lun.convert.command import run as convert
from lun.data.local import Local
from lun.inspect.command import run as inspect
from lun.memory.command import run as memory
from lun.posthoc_ema.command import run as posthoc_ema
from lun.previews.prompt_grammar import read_prompts
from lun.sample.command import run as sample

NUMBERS = st.sampled_from([0, 4, 8, -1, 2**31, 2**63, 2**64 - 1, 10**400, 1e308, "4", None, True])
ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
HEADER: dict[str, Any] = {"__metadata__": {"format": "pt"}, "a": ENTRY, "b": ENTRY | {"data_offsets": [8, 16]}}


def refused_or_read(path: Path) -> None:
    for read in (read_outline, read_state_dict):
        try:
            read(path)
        except Fault as fault:
            assert fault.id in ("MOD02", "MOD05"), fault


@pytest.mark.parametrize("count", COUNTS)
def test_any_header_of_a_safetensors_file_is_answered(tmp_path: Path, count: int) -> None:
    path = tmp_path / "x.safetensors"
    spots = [spot for spot in places(HEADER) if spot]
    value = NUMBERS | VALUES | st.lists(NUMBERS, max_size=3)
    one = st.builds(lambda spot, new: json.dumps(put(HEADER, spot, new)).encode(), st.sampled_from(spots), value)
    double = st.just(b'{"a":' + json.dumps(ENTRY).encode() + b',"a":' + json.dumps(ENTRY).encode() + b"}")

    def check(case: tuple[bytes, Any, int]) -> None:
        header, length, data = case
        told = len(header) if length is None else length
        path.write_bytes(struct.pack("<Q", told) + header + bytes(data))
        refused_or_read(path)

    lengths = st.none() | st.none() | st.integers(0, 2**64 - 1)
    fuzz(count, st.tuples(one | TORN | double, lengths, st.integers(0, 20)), check)


OPCODES = [
    bytes([code]) for code in b"()]}.0123456789aceghijlnopqrstuxV\x85\x86\x87\x88\x89\x8a\x8c\x8f\x90\x93\x94Q\x80N"
]


def changed_pickle(chance: random.Random, whole: bytes) -> bytes:
    """The pickle of a checkpoint with bytes changed, left out, repeated, or opcodes put in."""
    content = bytearray(whole)
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(content))
        other = chance.choice(
            [b"", bytes([chance.randrange(256)]), chance.choice(OPCODES), bytes(content[place : place + 30]) * 3]
        )
        content[place : place + chance.randrange(3)] = other
    return bytes(content)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("zipped", [True, False])
def test_any_pickle_in_a_torch_file_is_answered(tmp_path: Path, zipped: bool, count: int) -> None:
    file = io.BytesIO()
    content = {
        "state_dict": {"a": torch.randn(3, 3), "b": torch.ones(2)},
        "global_step": 3,
        "x": [(1, (2, 3)), {"y": None}],
    }
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    path = tmp_path / "x.ckpt"
    parts: dict[str, bytes] = {}
    if zipped:
        with zipfile.ZipFile(file) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
    pickled = next((name for name in parts if name.endswith("data.pkl")), "")

    def check(seed: int) -> None:
        chance = random.Random(seed)
        if zipped:
            with zipfile.ZipFile(path, "w") as archive:
                for name, part in parts.items():
                    archive.writestr(name, changed_pickle(chance, part) if name == pickled else part)
        else:
            path.write_bytes(changed_pickle(chance, file.getvalue()))
        refused_or_read(path)

    fuzz(count, st.integers(0, 2**32), check)


@pytest.mark.parametrize("count", COUNTS)
def test_any_text_in_the_folder_of_a_pipeline_is_answered(tmp_path: Path, count: int) -> None:
    """Of a folder whose weights are those of no family, so that only what describes them is at stake."""
    from support.small import model

    from ldm.convert.diffusers_folder import write_pipeline

    folder = tmp_path / "folder"
    write_pipeline(model("sd1"), folder, torch.float16)
    files = sorted(folder.rglob("*.json"))
    known = {file: json.loads(file.read_text()) for file in files}
    spots = [(file, spot) for file in files for spot in places(known[file]) if spot]

    def check(case: tuple[tuple[Path, tuple[Any, ...]], Any, bytes | None]) -> None:
        (file, spot), value, torn = case
        file.write_bytes(json.dumps(put(known[file], spot, value)).encode() if torn is None else torn)
        try:
            read_pipeline(folder)
        except Fault as fault:
            assert fault.id.startswith("MOD"), fault
        finally:
            file.write_text(json.dumps(known[file]))

    fuzz(count, st.tuples(st.sampled_from(spots), VALUES | NUMBERS, st.none() | st.none() | TORN), check)


@pytest.mark.parametrize("count", COUNTS)
def test_any_name_of_a_model_is_answered(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pieces = st.lists(
        st.sampled_from(["..", "x", "/", "@", "-", ".", "y" * 99, "é", "main", "--", "\n", "a/b"]), max_size=6
    )

    def check(name: str) -> None:
        try:
            find_weights(name)
        except Fault as fault:
            assert fault.id == "MOD01", fault

    fuzz(count, pieces.map("".join) | st.text(max_size=12), check)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("ending", ["txt", "yaml"])
def test_any_list_of_prompts_is_answered(tmp_path: Path, ending: str, count: int) -> None:
    path = tmp_path / f"prompts.{ending}"
    entry = st.dictionaries(st.sampled_from(["prompt", "negative", "seed", "steps", "width", "x"]), VALUES, max_size=4)
    options = st.sampled_from(
        ["--n", "--w 9999999999", "--h x", "--d 1e9", "--l nan", "--s -1", "--q", "a cat", "- {", "\x00"]
    )
    texts = (
        st.lists(options | st.text(max_size=9), max_size=5)
        .map(" ".join)
        .map(lambda text: text.encode(errors="replace"))
    )
    listed = st.lists(entry | SCALARS, max_size=3).map(lambda found: json.dumps(found).encode())

    def check(content: bytes) -> None:
        path.write_bytes(content)
        try:
            read_prompts(path)
        except Fault as fault:
            assert fault.id.startswith("CFG"), fault

    fuzz(count, texts | listed | TORN | st.binary(max_size=30), check)


LINES = [
    b"a," + b"[" * 50_000 + b"\n",
    b"file_name,text\n",
    b'{"file_name": "img/0.png", "text": "x"}\n',
    b'img/0.png,"',
    b'"' * 50,
    b"," * 200_000,
    b"\r",
    b"\x00",
    b"\xff",
]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl", "metadata/x.json", "meta_lat.json"])
def test_any_bytes_in_a_description_are_read_or_told(tmp_path: Path, name: str, count: int) -> None:
    root = put_board(tmp_path / "board", {"0": {"path": "img/0.png", "tags": ["a"], "score": 5}})
    layout: dict[str, Any] = {"metadata_params": {}} if name.endswith("x.json") else {"layout": "imagefolder"}

    def check(content: bytes) -> None:
        (root / name).write_bytes(content)
        try:
            found = Local(str(root), size=4, **layout)
            for index in range(len(found)):
                found.example(index, Draws(0, index))
        except Fault:
            pass

    pieces = (
        st.sampled_from(LINES)
        | st.binary(max_size=20)
        | TORN
        | SCALARS.map(lambda v: json.dumps(v, default=str).encode())
    )
    fuzz(count, st.lists(pieces, max_size=5).map(b"".join), check)


TOLD = TORN | st.binary(max_size=30) | VALUES.map(lambda value: json.dumps(value, default=str).encode())
PACKED = TOLD.map(lambda said: b"\0" + zlib.compress(said * 100)) | st.just(b"\0" + zlib.compress(bytes(80_000_000), 1))


def with_chunks(png: bytes, chunks: list[tuple[bytes, bytes]]) -> bytes:
    """A PNG file with these chunks (kind, content) behind its header, where programs tell how they made it."""
    head, rest = png[:33], png[33:]
    return head + b"".join(chunk(kind, content) for kind, content in chunks) + rest


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.mark.parametrize("count", COUNTS)
def test_anything_that_a_picture_tells_of_itself_is_of_no_consequence_or_told(tmp_path: Path, count: int) -> None:
    """Prompts and workflows that generators write into pictures, EXIF, profiles: none of it is what is trained on."""
    root = put_board(tmp_path / "board", {"0": {"path": "img/0.png", "tags": ["a"], "score": 5}})
    png = (root / "img/0.png").read_bytes()
    Image.new("RGB", (6, 4)).save(tmp_path / "x.jpg")
    jpeg = (tmp_path / "x.jpg").read_bytes()
    key = st.sampled_from(
        [b"parameters\0", b"workflow\0", b"prompt\0\1\0\0\0", b"XML:com.adobe.xmp\0", b"", b"Exif\0\0"]
    )
    content = st.builds(bytes.__add__, key, TOLD | PACKED)
    kinds = st.sampled_from([b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"iCCP", b"gAMA", b"cHRM", b"pHYs", b"tRNS", b"acTL"])
    dataset = Local(str(root), size=4, metadata_params={})

    def check(case: tuple[list[tuple[bytes, bytes]], bytes]) -> None:
        chunks, exif = case
        segment = b"\xff\xe1" + struct.pack(">H", 2 + len(exif[:60_000])) + exif[:60_000]
        for file in (with_chunks(png, chunks), jpeg[:2] + segment + jpeg[2:]):
            (root / "img/0.png").write_bytes(file)
            with suppress(Fault):
                dataset.example(0, Draws(0, 0))

    fuzz(count, st.tuples(st.lists(st.tuples(kinds, content), max_size=4), content), check)


# fmt: off
FLAGS = st.sampled_from([
    "--to", "--ema", "--no-ema", "--dtype", "--format", "--vae", "--force", "--trust-pickle", "--max-shard-size",
    "--allow", "--prompts", "--seed", "--steps", "--guidance", "--scheduler", "--size", "--negative", "--raw",
    "-o", "--batch", "-b", "--width", "--step", "--base-weight", "--sweep", "--track", "--against", "--tolerance",
    "--widths", "--count", "--png", "--json", "--html", "--base", "--set", "--split", "--help", "-x", "--",
    "inspect", "plan", "verify", "export", "ldm", "diffusers", "fp16", "train", "x.safetensors", "../x",
    "no/model", "1e400", "-1", "nan", "0.1:0.2:99999999999",
])
# fmt: on


@pytest.mark.parametrize("count", COUNTS)
def test_any_command_line_of_the_other_commands_is_answered(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = st.lists(FLAGS | SCALARS.map(str), max_size=6)
    of = st.sampled_from([convert, sample, posthoc_ema, inspect, memory])
    fuzz(count, st.tuples(of, words), lambda case: require_answer(case[0], [w.replace("\0", "") for w in case[1]]))
