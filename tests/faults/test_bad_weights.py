"""Weights files as people really have them: each refused in words with the file's name, none of them opened by code."""

import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.compvis import config_of, random_checkpoint
from support.damage import flip
from support.runs import TINY, make_pictures
from support.told import Told
from torch import Tensor

from ldm.files.read import read_state_dict
from ldm.files.write import HASH, write_safetensors

State = dict[str, Tensor]
UNET = "model.diffusion_model."


class Harm:
    """An object that a pickle would build by running code."""

    def __reduce__(self) -> object:
        return Path.touch, (Path("harmed"),)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("data"), 2)


@pytest.fixture(scope="module")
def state(data: Path) -> State:
    return random_checkpoint(config_of([TINY], data))


@pytest.fixture
def told(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.chdir(tmp_path)
    return Told(tmp_path, data, capsys)


def content(data: bytes) -> Callable[[Path, State], None]:
    return lambda path, state: void(path.write_bytes(data))


def void(_: object) -> None:
    """Whatever was done, nothing comes of it."""


def header(text: str, length: int | None = None) -> Callable[[Path, State], None]:
    """A safetensors file with this header and nothing behind it."""
    return content(struct.pack("<Q", len(text) if length is None else length) + text.encode())


def saved(change: Callable[[State], object]) -> Callable[[Path, State], None]:
    """What torch.save makes of a changed state."""
    return lambda path, state: torch.save(change(state), path)


def stored(change: Callable[[State], State]) -> Callable[[Path, State], None]:
    return lambda path, state: save_file(change(state), path)


def cut(share: float) -> Callable[[Path, State], None]:
    def make(path: Path, state: State) -> None:
        (save_file if path.suffix == ".safetensors" else torch.save)(state, path)
        whole = path.read_bytes()
        path.write_bytes(whole[: int(share * len(whole))])

    return make


def flipped(path: Path, state: State) -> None:
    torch.save({"state_dict": state}, path)
    flip(path, path.stat().st_size // 2)


def renamed_zip(path: Path, state: State) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.txt", "hello")


def pickled(path: Path, state: State) -> None:
    path.write_bytes(pickle.dumps(Harm()))


def folder_of(files: dict[str, str]) -> Callable[[Path, State], None]:
    """A folder with these texts below it."""

    def make(path: Path, state: State) -> None:
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)

    return make


def first_unet(state: State) -> str:
    return next(name for name in state if name.startswith(UNET) and state[name].ndim == 4)


def with_unet(state: State, value: Callable[[Tensor], Tensor]) -> State:
    name = first_unet(state)
    return state | {name: value(state[name])}


ONE_TENSOR = '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'

FILES: dict[str, tuple[str, Callable[[Path, State], None], str, str]] = {
    "nothing of that name": ("sd.ckpt", lambda path, state: None, "MOD01", "sd.ckpt"),
    "an empty file": ("sd.ckpt", content(b""), "MOD02", "empty file"),
    "a git-lfs pointer": (
        "sd.ckpt",
        content(b"version https://git-lfs.github.com/spec/v1\nsize 42\n"),
        "MOD02",
        "git lfs pull",
    ),
    "a web page": ("sd.safetensors", content(b"<!doctype html>"), "MOD02", "web page"),
    "an error message in JSON": ("sd.ckpt", content(b'{"error": "not found"}'), "MOD02", "JSON text"),
    "zeros": ("sd.ckpt", content(bytes(5000)), "MOD02", "unfinished download"),
    "noise": ("sd.ckpt", content(bytes(range(1, 256)) * 9), "MOD02", "no format that is known"),
    "another archive": ("sd.ckpt", content(b"Rar!\x1a\x07\0" * 9), "MOD02", "RAR archive"),
    "a quantised model": ("sd.ckpt", content(b"GGUF" * 9), "MOD02", "GGUF"),
    "an ordinary zip file": ("sd.ckpt", renamed_zip, "MOD02", "ordinary zip archive"),
    "a truncated torch file": ("sd.ckpt", cut(0.6), "MOD02", "truncated torch file"),
    "a torch file with a flipped bit": ("sd.ckpt", flipped, "MOD02", "does not match its checksum"),
    "a truncated safetensors file": ("sd.safetensors", cut(0.6), "MOD02", "truncated safetensors file"),
    "a safetensors file cut in its header": ("sd.safetensors", cut(0.001), "MOD02", "header"),
    "a header that is no JSON": ("sd.safetensors", header("{nothing}"), "MOD02", "damaged header"),
    "a header that is a list": ("sd.safetensors", header('{"a":[1]}'), "MOD02", "damaged header"),
    "a header with an impossible type": (
        "sd.safetensors",
        header(ONE_TENSOR.replace("F32", "F33")),
        "MOD02",
        "sd.safetensors",
    ),
    "a header of negative places": (
        "sd.safetensors",
        header(ONE_TENSOR.replace("[0,4]", "[4,0]")),
        "MOD02",
        "sd.safetensors",
    ),
    "a header without tensors": ("sd.safetensors", header("{}" + " " * 6), "MOD02", "no named tensors"),
    "a pickle that would run code": ("sd.ckpt", pickled, "MOD05", "runs code"),
    "a torch file that would run code": (
        "sd.ckpt",
        saved(lambda state: {"state_dict": state, "x": Harm()}),
        "MOD05",
        "runs code",
    ),
    "a torch file of a number": ("sd.ckpt", saved(lambda state: 5), "MOD02", "no named tensors"),
    "a torch file of a list": ("sd.ckpt", saved(lambda state: [torch.ones(2)]), "MOD02", "no named tensors"),
    "an optimizer alone": ("sd.ckpt", saved(lambda state: {"optimizer": {"state": {}}}), "MOD02", "no named tensors"),
    "weights of something else": (
        "sd.safetensors",
        stored(lambda state: {"encoder.weight": torch.ones(3)}),
        "MOD06",
        "sd.safetensors",
    ),
    "a tensor of another shape": (
        "sd.safetensors",
        stored(lambda state: with_unet(state, lambda value: value[:1].clone())),
        "MOD03",
        "another shape",
    ),
    "a tensor that is missing": (
        "sd.safetensors",
        stored(lambda state: {k: v for k, v in state.items() if k != first_unet(state)}),
        "MOD03",
        "missing",
    ),
    "a tensor too many": (
        "sd.safetensors",
        stored(lambda state: state | {UNET + "more.weight": torch.ones(1)}),
        "MOD03",
        "unexpected",
    ),
    "a NaN": (
        "sd.safetensors",
        stored(lambda state: with_unet(state, lambda value: value * float("nan"))),
        "MOD02",
        "NaN",
    ),
    "infinity": (
        "sd.safetensors",
        stored(lambda state: with_unet(state, lambda value: value / 0)),
        "MOD02",
        "infinite",
    ),
    "an empty folder": ("sd", folder_of({"readme.txt": "hello"}), "MOD01", "sd"),
    "a pipeline without weights": (
        "sd",
        folder_of({"model_index.json": "{}", "unet/config.json": "{}"}),
        "MOD01",
        "unet",
    ),
    "an index that is no JSON": ("sd", folder_of({"unet/model.safetensors.index.json": "{"}), "MOD02", "index.json"),
    "an index of nothing": ("sd", folder_of({"unet/model.safetensors.index.json": "{}"}), "MOD02", "weight_map"),
    "an index of files that are not there": (
        "sd",
        folder_of({"unet/model.safetensors.index.json": '{"weight_map": {"a": "b.safetensors"}}'}),
        "MOD01",
        "b.safetensors",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_weights_that_are_refused(told: Told, state: State, name: str) -> None:
    file, make, fault, part = FILES[name]
    path = told.folder / file
    make(path, state)
    line = told.tiny("--init-from", str(path), "~model.params.unet_config.params.from_scratch")
    begun = name in ("a torch file with a flipped bit", "a NaN", "infinity")  # known once all of it is read
    assert str(path.name) in told.refused(line, 4, fault, part, begun=begun)
    assert not (told.folder / "harmed").exists()


def test_a_hash_in_the_header_that_does_not_match_is_told(
    told: Told, state: State, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool that edits weights may leave an old hash, so it is no more than a warning."""
    path = told.folder / "sd.safetensors"
    write_safetensors(path, state, {HASH: ""})
    length = int.from_bytes(path.read_bytes()[:8], "little")
    assert json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"][HASH].startswith("0x")
    read_state_dict(path)
    assert "sd.safetensors" not in caplog.text
    whole = {name: value.clone() for name, value in load_file(path).items()}
    flip(path, path.stat().st_size - 3, 0)
    read_state_dict(path)
    assert "warning[MOD08]" in caplog.text and "sd.safetensors" in caplog.text
    assert any(not torch.equal(value, whole[name]) for name, value in load_file(path).items())
