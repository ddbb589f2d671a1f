"""Snapshots keep small differences to a base, and say what they are of."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ldm.errors import Fault
from ldm.files.digest import sha256
from ldm.files.ema_snapshot import About, Snapshot, TensorFile, write_snapshot
from ldm.files.write import write_safetensors

ABOUT = About("power-0.05", 0.05, 40, 0, 10, "aa")


def written(path: Path, average: dict[str, torch.Tensor], base: dict[str, torch.Tensor]) -> Snapshot:
    write_snapshot(path / "s.safetensors", average, base, ABOUT)
    return Snapshot(path / "s.safetensors")


@pytest.mark.parametrize("moved", [1e-9, 1e-2, 1e4])
def test_what_training_moved_survives_to_a_thousandth_however_small(tmp_path: Path, moved: float) -> None:
    torch.manual_seed(0)
    base = {"a.w": torch.zeros(64, 32), "b": torch.zeros(7)}
    average = {name: moved * torch.randn(tensor.shape) for name, tensor in base.items()}
    snapshot = written(tmp_path, average, base)
    for name, tensor in average.items():
        assert (snapshot[name] - tensor).norm() < 5e-4 * tensor.norm()


def test_differences_lose_far_less_than_whole_weights_in_fp16(tmp_path: Path) -> None:
    torch.manual_seed(0)
    base = {"w": torch.randn(1000)}
    average = {"w": base["w"] * (1 + 0.01 * torch.randn(1000))}
    moved = average["w"] - base["w"]
    ours = (written(tmp_path, average, base)["w"] - moved).norm() / moved.norm()
    whole = (average["w"].half().float() - average["w"]).norm() / moved.norm()
    assert ours < 5e-4 and whole > 20 * ours


def test_a_difference_to_16_bit_weights_is_taken_in_fp32(tmp_path: Path) -> None:
    base = {"w": torch.tensor([1.0, 2.0]).bfloat16()}
    assert written(tmp_path, {"w": torch.tensor([1.0001, 2.0])}, base)["w"].tolist() == pytest.approx(
        [1e-4, 0], abs=1e-7
    )


def test_weights_that_did_not_move_and_empty_ones_are_kept(tmp_path: Path) -> None:
    base = {"w": torch.ones(3), "e": torch.zeros(0)}
    snapshot = written(tmp_path, base, base)
    assert snapshot["w"].tolist() == [0.0] * 3 and snapshot["e"].shape == (0,)
    assert snapshot.about == ABOUT and snapshot.about.time == 40


@pytest.mark.parametrize(
    "odd", [{"last_update": -1}, {"last_update": 10**400}, {"sigma_rel": 10**400}, {"sigma_rel": 2.0}, {"sigma_rel": 0}]
)
def test_a_snapshot_of_a_time_or_width_that_no_average_has_is_a_damaged_one(tmp_path: Path, odd: Any) -> None:
    write_snapshot(tmp_path / "s", {"w": torch.ones(1)}, {"w": torch.ones(1)}, replace(ABOUT, **odd))
    with pytest.raises(Fault, match="damaged snapshot"):
        Snapshot(tmp_path / "s")


def test_another_file_is_no_snapshot(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "w.safetensors", {"w": torch.ones(1)})
    (tmp_path / "half.safetensors").write_bytes((tmp_path / "w.safetensors").read_bytes()[:20])
    for name in ("w", "half"):
        with pytest.raises(Fault) as caught:
            Snapshot(tmp_path / f"{name}.safetensors")
        assert caught.value.id == "MOD02"


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    base = {"w": torch.ones(3)}
    snapshot = written(tmp_path, base, base)
    before = sha256(snapshot.path)
    with pytest.raises(KeyError):
        write_snapshot(snapshot.path, {"w": torch.ones(3), "x": torch.ones(1)}, base, ABOUT)
    assert sha256(snapshot.path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["s.safetensors"]


def test_a_file_gives_its_tensors_one_at_a_time(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "w.safetensors", {"a": torch.ones(1), "b": torch.zeros(2)}, {"k": "v"})
    with TensorFile(tmp_path / "w.safetensors") as file:
        assert (len(file), sorted(file), file["b"].tolist(), file.metadata) == (2, ["a", "b"], [0.0, 0.0], {"k": "v"})
