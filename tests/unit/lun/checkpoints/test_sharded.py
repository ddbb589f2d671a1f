"""Checkpoints with a folder of shards, as several ranks leave them: written here by one process that plays them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.damage import DAMAGES
from torch import Tensor

from ldm.errors import Fault
from ldm.families.whole_checkpoint import open_checkpoint
from ldm.files.lazy_tensor import LazyShardedTensor, Run
from ldm.files.read import read_content, read_outline
from lun.checkpoints import sharded
from lun.checkpoints.atomic import AtomicIO, clean_leftovers, peek, unfit, unreadable
from lun.checkpoints.checkpoint_files import remove_checkpoint, size_on_disk
from lun.checkpoints.manifest import manifest_path
from lun.checkpoints.sharded import Written

WHOLE = {"w": torch.arange(3000.0).reshape(30, 100), "half": torch.arange(2000.0).reshape(100, 20).bfloat16()}


def state(share: Callable[[Tensor], Tensor], step: int = 1) -> dict[str, Any]:
    large = {name: share(tensor + step) for name, tensor in WHOLE.items()}
    return {
        "state_dict": large | {"small": torch.tensor([step])},
        "ema": {"tracks": {"power-0.1": {"weights": {"w": share(WHOLE["w"] * 2)}}}},
        "optimizer_states": [{"state": {0: {"step": torch.tensor(1.0), "exp_avg": share(WHOLE["w"] / 7)}}}],
        "global_step": step,
        "lun": {"position": {"step": step}, "attempt": 1},
    }


def part_of(rank: int, first: float = 1 / 3) -> Callable[[Tensor], Tensor]:
    """What one of two ranks holds: the first a part of the elements, the second the rest."""

    def share(whole: Tensor) -> Tensor:
        cut = int(whole.numel() * first)
        start, end = (0, cut) if rank == 0 else (cut, whole.numel())
        return LazyShardedTensor(whole.shape, whole.dtype, [Run(start, whole.reshape(-1)[start:end])])

    return share


@pytest.fixture
def save(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AtomicIO]:
    """`save(path, step)`: what two ranks write together; rank 1 writes when rank 0 asks how the others fared."""

    def both(path: Path, step: int = 1, first: float = 1 / 3, second: Callable[..., Written] | None = None):
        def gathered(own: Written) -> list[Written]:
            (folder,) = [entry for entry in path.parent.iterdir() if entry.name.startswith(f".{path.name}.shards-")]
            write = second or sharded._write_own
            return [own, write(folder / "rank-00001.safetensors", state(part_of(1, first), step))]

        io = AtomicIO()
        with monkeypatch.context() as two:
            two.setattr(sharded, "_gathered", gathered)
            io.save_shards(state(part_of(0, first), step), path)
        return io

    return both


@pytest.fixture
def checkpoint(tmp_path: Path, save: Callable[..., AtomicIO]) -> Path:
    save(tmp_path / "a.ckpt")
    return tmp_path / "a.ckpt"


def folder_of(path: Path) -> Path:
    (folder,) = path.parent.glob(f"{path.name}.shards-*")
    return folder


def equal(found: dict[str, Any], step: int = 1) -> bool:
    wanted = state(lambda tensor: tensor, step)
    same = [torch.equal(found["state_dict"][name], tensor) for name, tensor in wanted["state_dict"].items()]
    average = found["ema"]["tracks"]["power-0.1"]["weights"]["w"]
    moment = found["optimizer_states"][0]["state"][0]["exp_avg"]
    return all(same) and torch.equal(average, WHOLE["w"] * 2) and torch.equal(moment, WHOLE["w"] / 7)


def test_what_two_ranks_wrote_comes_back_whole_and_to_the_bit(checkpoint: Path) -> None:
    found = AtomicIO().load_checkpoint(checkpoint)
    assert equal(found) and found["global_step"] == 1 and "shards" not in found
    assert sorted(os.listdir(checkpoint.parent)) == ["a.ckpt", "a.ckpt.json", folder_of(checkpoint).name]
    assert sorted(os.listdir(folder_of(checkpoint))) == ["kept", "rank-00000.safetensors", "rank-00001.safetensors"]
    assert unreadable(checkpoint) is None and unfit(checkpoint) is None
    assert peek(checkpoint)["lun"]["position"] == {"step": 1}


@pytest.mark.parametrize("first", [0.0, 1.0])
def test_a_rank_may_hold_nothing(tmp_path: Path, save: Callable[..., AtomicIO], first: float) -> None:
    save(tmp_path / "a.ckpt", first=first)
    assert unreadable(tmp_path / "a.ckpt") is None and equal(AtomicIO().load_checkpoint(tmp_path / "a.ckpt"))


def test_the_small_file_holds_no_large_tensor(tmp_path: Path, checkpoint: Path) -> None:
    whole = tmp_path / "whole.ckpt"
    AtomicIO().save_checkpoint(state(lambda tensor: tensor), whole)
    files = list(folder_of(checkpoint).glob("rank-*"))
    assert checkpoint.stat().st_size < whole.stat().st_size - sum(tensor.nbytes for tensor in WHOLE.values())
    assert size_on_disk(checkpoint) == checkpoint.stat().st_size + sum(file.stat().st_size for file in files)


def test_readers_of_weights_see_no_difference(checkpoint: Path) -> None:
    content = read_content(checkpoint)
    assert {name: tuple(tensor.shape) for name, tensor in content.state.items()} == {
        name: tuple(tensor.shape) for name, tensor in read_outline(checkpoint).state.items()
    }
    assert torch.equal(content.state["w"], WHOLE["w"] + 1) and content.state["half"].dtype == torch.bfloat16
    assert open_checkpoint(checkpoint).describe().size > sum(tensor.nbytes for tensor in WHOLE.values())


def test_weights_that_hold_nan_are_found_in_shards_too(
    tmp_path: Path, save: Callable[..., AtomicIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WHOLE, "half", torch.full((100, 20), float("nan")))
    save(tmp_path / "a.ckpt")
    assert unfit(tmp_path / "a.ckpt") == "its weights half hold NaN"


def test_a_save_over_an_old_one_leaves_one_folder(checkpoint: Path, save: Callable[..., AtomicIO]) -> None:
    before = folder_of(checkpoint)
    io = save(checkpoint, step=2)
    assert folder_of(checkpoint) != before and equal(AtomicIO().load_checkpoint(checkpoint), step=2)
    assert io.expected == size_on_disk(checkpoint)


def test_an_ordinary_save_over_a_sharded_one_leaves_no_folder(checkpoint: Path) -> None:
    AtomicIO().save_checkpoint(state(lambda tensor: tensor, step=3), checkpoint)
    assert sorted(os.listdir(checkpoint.parent)) == ["a.ckpt", "a.ckpt.json"]
    assert equal(AtomicIO().load_checkpoint(checkpoint), step=3)


class Killed(BaseException):
    """What ends a process; nothing it would still do is done."""


def other_kind(path: Path) -> str:
    return "file" if path.is_dir() else "folder"


@pytest.mark.parametrize("place", ["mkdir", "move of the folder", "move of the file", "rmtree"])
def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(
    checkpoint: Path, save: Callable[..., AtomicIO], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Right after each thing that a save does to the directory; `rmtree` in the middle of the old folder."""
    owner, name = {"rmtree": (shutil, "rmtree"), "mkdir": (Path, "mkdir")}.get(place, (os, "replace"))
    real = getattr(owner, name)

    def last_act(*arguments: Any, **more: Any) -> None:
        if place == "rmtree":
            os.unlink(next(Path(arguments[0]).iterdir()))
        elif arguments[0] == checkpoint.parent or place == f"move of the {other_kind(arguments[0])}":
            return real(*arguments, **more)
        else:
            real(*arguments, **more)
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
        raise Killed

    monkeypatch.setattr(owner, name, last_act)
    with pytest.raises(Killed):
        save(checkpoint, step=2)
    monkeypatch.undo()
    step = 1 if place in ("mkdir", "move of the folder") else 2
    assert unreadable(checkpoint) is None and equal(AtomicIO().load_checkpoint(checkpoint), step)
    clean_leftovers(checkpoint.parent)
    assert len([entry for entry in checkpoint.parent.iterdir() if entry.is_dir()]) == 1
    assert unreadable(checkpoint) is None and equal(AtomicIO().load_checkpoint(checkpoint), step)


@pytest.mark.parametrize("failing", ["first rank", "second rank", "small file"])
def test_a_rank_that_cannot_write_leaves_the_old_checkpoint_and_nothing_else(
    checkpoint: Path, save: Callable[..., AtomicIO], monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    before = sorted(os.listdir(checkpoint.parent))
    second = None
    if failing == "first rank":
        monkeypatch.setattr(sharded, "pour_shard", full)
    elif failing == "second rank":
        second = lambda *_: Written(error="No space left on device")  # noqa: E731
    else:
        monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space left"):
        save(checkpoint, step=2, second=second)
    assert sorted(os.listdir(checkpoint.parent)) == before
    assert unreadable(checkpoint) is None and equal(AtomicIO().load_checkpoint(checkpoint))


def test_an_error_after_the_move_does_not_take_the_shards_of_what_was_moved(
    checkpoint: Path, save: Callable[..., AtomicIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(temporary: Path, path: Path) -> None:
        os.replace(temporary, path)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("lun.checkpoints.atomic.move_into_place", broken)
    with pytest.raises(OSError, match="Input/output"):
        save(checkpoint, step=2)
    assert unreadable(checkpoint) is None and equal(AtomicIO().load_checkpoint(checkpoint), step=2)


def test_elements_that_no_rank_holds_are_an_error_before_anything_is_replaced(
    checkpoint: Path, save: Callable[..., AtomicIO]
) -> None:
    def forgetful(path: Path, content: dict[str, Any]) -> Written:
        return sharded._write_own(path, {"state_dict": {"w": content["state_dict"]["w"]}})

    with pytest.raises(Fault, match="RES04") as fault:
        save(checkpoint, step=2, second=forgetful)
    assert "state_dict/half" in fault.value.why
    assert equal(AtomicIO().load_checkpoint(checkpoint))


@pytest.mark.parametrize("damage", [*DAMAGES, "missing", "no folder"])
def test_a_shard_that_came_to_harm_is_found(checkpoint: Path, damage: str) -> None:
    folder = folder_of(checkpoint)
    shard = folder / "rank-00001.safetensors"
    if damage == "no folder":
        folder.rename(folder.with_name("moved"))
    elif damage == "missing":
        shard.unlink()
    else:
        DAMAGES[damage](shard)
    reason = unreadable(checkpoint)
    assert reason is not None and "rank-0000" in reason
    with pytest.raises(Fault, match="MOD02") as fault:
        read_content(checkpoint)
    assert "rank-0000" in fault.value.why


@pytest.mark.parametrize("name", ["../other", "/etc", "a/b", "..", ""])
def test_a_checkpoint_names_files_beside_it_and_none_elsewhere(checkpoint: Path, name: str) -> None:
    content = torch.load(checkpoint, weights_only=True)
    content["shards"]["folder"] = name
    manifest_path(checkpoint).unlink()
    torch.save(content, checkpoint)
    assert "cannot be read" in str(unreadable(checkpoint))
    with pytest.raises(Fault, match="MOD02"):
        AtomicIO().load_checkpoint(checkpoint)


def test_a_folder_goes_with_its_checkpoint_and_stays_for_a_copy(
    checkpoint: Path, save: Callable[..., AtomicIO]
) -> None:
    kept = checkpoint.with_name("kept.ckpt")
    shutil.copy(checkpoint, kept)
    save(checkpoint, step=2)
    assert len([*checkpoint.parent.glob("*.shards-*")]) == 2
    remove_checkpoint(checkpoint)
    assert unreadable(kept) is None and equal(AtomicIO().load_checkpoint(kept))
    remove_checkpoint(kept)
    assert os.listdir(checkpoint.parent) == []


def test_the_shards_of_a_checkpoint_that_somebody_moved_away_stay(
    checkpoint: Path, save: Callable[..., AtomicIO], tmp_path: Path
) -> None:
    before, away = folder_of(checkpoint), tmp_path / "away" / "b.ckpt"
    away.parent.mkdir()
    checkpoint.rename(away)
    clean_leftovers(checkpoint.parent)
    for step in (2, 3):
        save(checkpoint, step=step)
    assert len([*checkpoint.parent.glob("*.shards-*")]) == 2
    before.rename(away.with_name(before.name))
    assert equal(AtomicIO().load_checkpoint(away)) and equal(AtomicIO().load_checkpoint(checkpoint), step=3)


def test_the_folder_of_a_file_that_cannot_be_read_stays(checkpoint: Path) -> None:
    checkpoint.write_bytes(b"")
    orphan = checkpoint.with_name("b.ckpt.shards-0123abcd")
    orphan.mkdir()
    clean_leftovers(checkpoint.parent)
    assert folder_of(checkpoint).is_dir() and not orphan.exists()
