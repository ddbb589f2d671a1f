"""Reading tensors, and refusing code."""

import os
import sys
import types
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ldm.errors import Fault
from ldm.files.read import read_outline, read_state_dict

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([1, 2])}


def same(state: dict[str, torch.Tensor]) -> bool:
    return state.keys() == TENSORS.keys() and all(torch.equal(state[key], TENSORS[key]) for key in TENSORS)


def test_a_safetensors_file_is_read_under_any_name(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "model.ckpt")
    assert same(read_state_dict(tmp_path / "model.ckpt"))


@pytest.mark.parametrize("zipped", [True, False])
def test_a_training_checkpoint_gives_its_state_dict(tmp_path: Path, zipped: bool) -> None:
    content = {"state_dict": TENSORS, "global_step": 7}
    torch.save(content, tmp_path / "x.ckpt", _use_new_zipfile_serialization=zipped)
    assert same(read_state_dict(tmp_path / "x.ckpt"))


def test_wrappers_names_are_taken_off(tmp_path: Path) -> None:
    torch.save({"module.a": TENSORS["a"], "_orig_mod.b": TENSORS["b"]}, tmp_path / "x.ckpt")
    assert same(read_state_dict(tmp_path / "x.ckpt"))


def test_a_checkpoint_of_2022_with_a_class_as_key_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "pytorch_lightning.callbacks.model_checkpoint"
    module = types.ModuleType(name)
    saver = type("ModelCheckpoint", (), {"__module__": name})
    module.ModelCheckpoint = saver  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        torch.save({"state_dict": TENSORS, "callbacks": {saver: {"best": saver()}}}, tmp_path / "x.ckpt")
    assert same(read_state_dict(tmp_path / "x.ckpt"))


class Touch:
    """Would make a file if it were unpickled the unsafe way."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_that_holds_code_is_refused_and_not_run(tmp_path: Path, zipped: bool) -> None:
    content = {"state_dict": TENSORS, "x": Touch(tmp_path / "made")}
    torch.save(content, tmp_path / "x.ckpt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(Fault) as caught:
        read_state_dict(tmp_path / "x.ckpt")
    assert caught.value.id == "MOD05"
    assert "mkdir" in caught.value.what
    assert not (tmp_path / "made").exists()


def test_a_missing_file_is_answered_with_what_is_there(tmp_path: Path) -> None:
    torch.save(TENSORS, tmp_path / "other.ckpt")
    with pytest.raises(Fault) as caught:
        read_state_dict(tmp_path / "runs" / "model.ckpt")
    assert caught.value.id == "MOD01"
    assert "other.ckpt" in caught.value.fix


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "unet").mkdir()
    with pytest.raises(Fault) as caught:
        read_state_dict(tmp_path)
    assert caught.value.id == "MOD01"
    assert "it is a folder" in caught.value.why
    assert "unet/" in caught.value.fix


@pytest.mark.parametrize("content", [{"step": 3}, [1, 2], {}])
def test_a_file_without_tensors_is_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "x.ckpt")
    with pytest.raises(Fault) as caught:
        read_state_dict(tmp_path / "x.ckpt")
    assert caught.value.id == "MOD02"


NOTES = {"position": {"step": 3, "slot": 6, "images": 6}, "attempt": 1, "data": {"n": 4}, "threads": 2}
ODD_NOTES = [
    {"global_step": "x"},
    {"global_step": [3]},
    {"lun": 3},
    {"lun": {"attempt": 1}},
    {"state_dict": [1]},
    {"callbacks": []},
    {"optimizer_states": {}},
    *({"lun": NOTES | odd} for odd in ({"position": 3}, {"position": {"step": "3"}}, {"position": {"step": -1}})),
    *({"lun": NOTES | odd} for odd in ({"attempt": None}, {"attempt": 10**30}, {"data": [1]}, {"threads": "all"})),
    *({"lun": NOTES | odd} for odd in ({"resumed_from": 3}, {"diverged": "no"})),
]


START = {"slot": 6, "step": 3, "epoch": 0, "read": {"any": {"a": 4}}, "used": {"64x64": 6}}
SETS = {
    "n": 4,
    "sets": {"a": {"n": 4, "fingerprint": "f", "law": "repeats 1"}},
    "members": {"a": {"None": 4}},
    "epoch_of": "sum",
    "start": START,
    "reached": START,
}
ODD_SETS = [
    *({name: value} for name in SETS if name != "n" for value in ({"a": 3}, [])),
    {"n": {}},
    *({"start": START | odd} for odd in ({"slot": -1}, {"slot": "0"}, {"read": {"64": {}}}, {"used": {"any": -1}})),
    *({"start": {name: START[name] for name in START if name != gone}} for gone in START),
]


@pytest.mark.parametrize("odd", ODD_SETS, ids=str)
def test_notes_of_several_sets_are_of_their_types_or_refused(tmp_path: Path, odd: dict[str, object]) -> None:
    for data, good in ((SETS, True), (SETS | odd, False), ({name: SETS[name] for name in ("n", *odd)}, False)):
        torch.save({"state_dict": TENSORS, "lun": NOTES | {"data": data}}, tmp_path / "x.ckpt")
        if good:
            assert same(read_state_dict(tmp_path / "x.ckpt"))
        elif data.keys() != {"n"}:
            with pytest.raises(Fault, match="MOD02"):
                read_state_dict(tmp_path / "x.ckpt")


@pytest.mark.parametrize("odd", ODD_NOTES, ids=str)
def test_a_checkpoint_whose_notes_are_of_other_types_is_refused(tmp_path: Path, odd: dict[str, object]) -> None:
    whole = {"state_dict": TENSORS, "global_step": 3, "epoch": 0, "lun": NOTES, "optimizer_states": [{}]}
    torch.save(whole, tmp_path / "whole.ckpt")
    assert same(read_state_dict(tmp_path / "whole.ckpt"))
    torch.save(whole | odd, tmp_path / "odd.ckpt")
    with pytest.raises(Fault, match="MOD02"):
        read_state_dict(tmp_path / "odd.ckpt")


def test_a_file_larger_than_memory_is_looked_at_and_refused_in_words_where_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its header is read without mapping what lies behind it; what torch says of a map that is refused is caught."""
    path = tmp_path / "large.safetensors"
    size = 1 << 42
    header = f'{{"weight":{{"dtype":"F32","shape":[{size // 4}],"data_offsets":[0,{size}]}}}}'.encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + size)  # takes no room
    assert list(read_outline(path).state) == ["weight"]

    def refused(_: object) -> None:
        raise RuntimeError(f"unable to mmap {size} bytes from file: Cannot allocate memory (12)")

    monkeypatch.setattr("ldm.files.read.load_file", refused)
    with pytest.raises(Fault, match="does not fit into memory"):
        read_state_dict(path)
