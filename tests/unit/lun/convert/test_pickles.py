"""Files that run code while they are read: opened on trust alone, and written again without it."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.small import networks, same, single_file

from lun.convert.command import run

Refused = Callable[..., str]


class Dangerous:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.mark,)


def test_a_pickle_that_needs_code_is_opened_only_on_trust(
    tmp_path: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "it-ran"
    torch.save({"state_dict": single_file("sd1"), "extra": Dangerous(str(mark))}, tmp_path / "in.ckpt")
    line = (tmp_path / "in.ckpt", tmp_path / "x.safetensors", "--to", "ldm")
    fix = f"python -m lun.convert {line[0]} {tmp_path / 'in.safetensors'} --to ldm --trust-pickle"
    assert fix in refused(4, "MOD05", *line)
    assert not mark.exists()
    assert run([str(word) for word in (*line, "--trust-pickle")]) == 0
    assert mark.exists()
    assert "runs code while it is read" in capsys.readouterr().out
    assert same(load_file(tmp_path / "x.safetensors"), single_file("sd1"))


def test_a_bare_pickle_of_arrays_is_opened_on_trust(tmp_path: Path, refused: Refused) -> None:
    state = {key: value.numpy() for key, value in single_file("sd1").items()}
    (tmp_path / "in.ckpt").write_bytes(pickle.dumps({"state_dict": state, "step": np.int64(3)}))
    line = (tmp_path / "in.ckpt", tmp_path / "x.safetensors", "--to", "ldm")
    refused(4, "MOD05", *line)
    assert run([str(word) for word in (*line, "--trust-pickle")]) == 0
    assert same(load_file(tmp_path / "x.safetensors"), single_file("sd1"))


def test_a_whole_module_is_opened_on_trust(tmp_path: Path) -> None:
    torch.save(networks("sd1").vae, tmp_path / "vae.pt")
    assert run([str(tmp_path / "vae.pt"), str(tmp_path / "vae.safetensors"), "--to", "ldm", "--trust-pickle"]) == 0
    assert "encoder.down.0.block.0.conv1.weight" in load_file(tmp_path / "vae.safetensors")


def test_a_pickle_whose_code_is_missing_is_refused_even_on_trust(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "in.ckpt").write_bytes(b"\x80\x04cno_such_package\nThing\n.")
    line = (tmp_path / "in.ckpt", tmp_path / "x.ckpt", "--to", "ldm", "--trust-pickle")
    assert "no_such_package" in refused(4, "MOD05", *line)


def test_trust_changes_nothing_for_a_file_that_needs_none(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([str(file), str(tmp_path / "x.safetensors"), "--to", "ldm", "--trust-pickle"]) == 0
    assert "runs code" not in capsys.readouterr().out
