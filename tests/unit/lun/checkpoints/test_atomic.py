import hashlib
import os
import subprocess
import sys

import pytest
import torch

from ldm.errors import Fault
from lun.checkpoints import atomic
from lun.checkpoints.atomic import AtomicIO, clean_leftovers, peek, unfit, unreadable
from lun.checkpoints.checkpoint_files import remove_checkpoint
from lun.checkpoints.manifest import Manifest, manifest_path

STATE = {"state_dict": {"w": torch.arange(5000.0)}, "optimizer_states": [], "global_step": 1}


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "a.ckpt"
    AtomicIO().save_checkpoint(STATE, path)
    return path


def test_a_file_comes_back_as_it_was_saved_and_nothing_lies_beside_it(checkpoint):
    assert torch.equal(AtomicIO().load_checkpoint(checkpoint)["state_dict"]["w"], STATE["state_dict"]["w"])
    assert sorted(os.listdir(checkpoint.parent)) == ["a.ckpt", "a.ckpt.json"]
    assert unreadable(checkpoint) is None


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("unexpected pos 64 vs 0")])
def test_a_write_that_fails_halfway_leaves_the_old_file_and_no_other(checkpoint, monkeypatch, error):
    def failing(state, file):
        file.write(b"half")
        raise error

    monkeypatch.setattr(torch, "save", failing)
    with pytest.raises(type(error)):
        AtomicIO().save_checkpoint(STATE, checkpoint)
    assert sorted(os.listdir(checkpoint.parent)) == ["a.ckpt", "a.ckpt.json"]
    assert unreadable(checkpoint) is None


def test_the_file_reaches_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    order = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), real_fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("replace"), real_replace(a, b)))
    AtomicIO().save_checkpoint(STATE, tmp_path / "a.ckpt")
    assert order[:3] == ["fsync", "replace", "fsync"]


def test_the_first_file_must_be_readable_without_running_code(tmp_path):
    path = tmp_path / "a.ckpt"
    with pytest.raises(Fault, match="RES04"):
        AtomicIO().save_checkpoint(STATE | {"root": tmp_path}, path)
    assert not path.exists()


def test_only_the_first_file_of_a_process_is_read_again(tmp_path, monkeypatch):
    proven = []
    monkeypatch.setattr("lun.checkpoints.atomic._prove", proven.append)
    io = AtomicIO()
    for name in ("a.ckpt", "b.ckpt"):
        io.save_checkpoint(STATE, tmp_path / name)
    assert len(proven) == 1
    assert io.written == tmp_path / "b.ckpt"


@pytest.mark.parametrize("manifest", [True, False])
def test_every_flipped_bit_and_every_cut_is_found(checkpoint, manifest):
    if not manifest:
        manifest_path(checkpoint).unlink()
    whole = checkpoint.read_bytes()
    for place in range(3000, len(whole) - 3000, 997):
        checkpoint.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert unreadable(checkpoint), f"bit flipped at byte {place}"
        checkpoint.write_bytes(whole[:place])
        assert unreadable(checkpoint), f"cut at byte {place}"
    checkpoint.write_bytes(b"")
    assert unreadable(checkpoint)
    assert peek(checkpoint) == {}


def test_the_manifest_says_size_hash_and_moment_of_the_file_beside_it(tmp_path):
    path = tmp_path / "a.ckpt"
    AtomicIO().save_checkpoint(STATE | {"lun": {"position": {"step": 7}, "attempt": 2}}, path)
    content = path.read_bytes()
    assert Manifest.read(path) == Manifest(len(content), hashlib.sha256(content).hexdigest(), 7, 2)


def test_a_crash_between_file_and_manifest_leaves_a_file_that_is_good_without_one(checkpoint, monkeypatch):
    with monkeypatch.context() as crashing:
        crashing.setattr(Manifest, "write", lambda self, path: (_ for _ in ()).throw(OSError(28, "full")))
        AtomicIO().save_checkpoint(STATE | {"global_step": 2}, checkpoint)
    assert os.listdir(checkpoint.parent) == ["a.ckpt"]
    assert unreadable(checkpoint) is None


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"size": 1}'])
def test_a_broken_manifest_says_nothing(checkpoint, text):
    manifest_path(checkpoint).write_text(text)
    assert unreadable(checkpoint) is None


def test_a_whole_file_that_is_not_the_one_written_is_told(checkpoint):
    torch.save(STATE | {"global_step": 5}, checkpoint)
    assert "written" in unreadable(checkpoint)


@pytest.mark.parametrize(
    ("weight", "reason"), [(1.0, None), (float("inf"), None), (float("nan"), "its weights w hold NaN")]
)
def test_one_reading_says_whether_a_run_can_go_on_from_a_file(checkpoint, monkeypatch, weight, reason):
    AtomicIO().save_checkpoint(STATE | {"state_dict": {"w": torch.tensor([0.0, weight])}}, checkpoint)
    readings = []
    monkeypatch.setattr(atomic, "read_torch", lambda path, read=atomic.read_torch: readings.append(path) or read(path))
    assert unfit(checkpoint) == reason and readings == [checkpoint]
    checkpoint.write_bytes(b"")
    assert unfit(checkpoint) == unreadable(checkpoint) != reason


def test_a_file_goes_together_with_its_manifest(checkpoint):
    remove_checkpoint(checkpoint)
    assert os.listdir(checkpoint.parent) == []


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path):
    dead = subprocess.Popen([sys.executable, "-S", "-c", ""])
    dead.wait()
    living = os.getppid()
    (tmp_path / "periodic").mkdir()
    names = {number: tmp_path / "periodic" / f".a b.ckpt.tmp-{number}" for number in (dead.pid, living, os.getpid())}
    other = tmp_path / ".a.ckpt.tmp-notes"
    for path in (*names.values(), other):
        path.touch()
    clean_leftovers(tmp_path)
    assert [path.exists() for path in names.values()] == [False, True, False]
    assert other.exists()


class Foreign:
    """Of no framework: unpickling it would run its module."""


def test_a_file_with_objects_of_others_is_named_in_plain_words(tmp_path):
    path = tmp_path / "a.ckpt"
    torch.save(STATE | {"callbacks": {"x": Foreign()}}, path)
    reason = unreadable(path)
    assert reason is not None and "Python objects besides weights" in reason and "Foreign" in reason
    assert "\x1b" not in reason and "\n" not in reason


def moment(step, attempt):
    return {"weights": torch.full((3,), float(step)), "lun": {"attempt": attempt, "position": {"step": step}}}


def test_a_file_of_later_steps_of_another_attempt_is_kept_under_a_name_that_says_so(tmp_path):
    writer, path = AtomicIO(), tmp_path / "last.ckpt"
    writer.save_checkpoint(moment(30, 1), path)
    writer = AtomicIO()  # another process
    writer.save_checkpoint(moment(16, 2), path)
    writer.save_checkpoint(moment(20, 2), path)
    kept = tmp_path / "last-step30-attempt1.ckpt"
    assert unreadable(kept) is None and peek(kept)["weights"].tolist() == [30.0] * 3
    assert unreadable(path) is None and peek(path)["weights"].tolist() == [20.0] * 3
    assert len(list(tmp_path.glob("*.ckpt"))) == 2


def test_two_branches_keep_both_files_that_they_left(tmp_path):
    path = tmp_path / "last.ckpt"
    for step, attempt in ((30, 1), (16, 2), (30, 1), (16, 3)):
        AtomicIO().save_checkpoint(moment(step, attempt), path)
    names = {"last.ckpt", "last-step30-attempt1.ckpt", "last-step30-attempt1-2.ckpt"}
    assert {file.name for file in tmp_path.glob("*.ckpt")} == names


def test_a_file_of_earlier_steps_is_replaced(tmp_path):
    path = tmp_path / "last.ckpt"
    for step, attempt in ((10, 1), (16, 1), (16, 2), (20, 3)):
        AtomicIO().save_checkpoint(moment(step, attempt), path)
    assert {file.name for file in tmp_path.glob("*.ckpt")} == {"last.ckpt"}


def test_later_steps_are_kept_where_the_disk_knows_no_second_names(tmp_path, monkeypatch):
    def refuse(*given):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    AtomicIO().save_checkpoint(moment(30, 1), tmp_path / "last.ckpt")
    AtomicIO().save_checkpoint(moment(16, 2), tmp_path / "last.ckpt")
    assert peek(tmp_path / "last-step30-attempt1.ckpt")["lun"]["position"]["step"] == 30


def test_later_steps_are_kept_where_a_crash_left_no_manifest(tmp_path):
    AtomicIO().save_checkpoint(moment(30, 1), tmp_path / "last.ckpt")
    manifest_path(tmp_path / "last.ckpt").unlink()
    AtomicIO().save_checkpoint(moment(16, 2), tmp_path / "last.ckpt")
    assert peek(tmp_path / "last-step30-attempt1.ckpt")["lun"]["position"]["step"] == 30
