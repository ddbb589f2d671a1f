import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ldm.errors import Fault
from lun.run_dir.directory import RunDirectory
from lun.run_dir.resume import find_checkpoint, kept_checkpoints
from lun.run_dir.run_json import RunRecord

RECORD = RunRecord(status="stopped", started="2026-11-20T11:13:02", argv=["main.py"], steps=812)


def make_run(logdir: Path, name: str = "2026-11-20T11-13-02_pony") -> RunDirectory:
    run = RunDirectory(logdir / name)
    for folder in (run.configs, run.checkpoints):
        folder.mkdir(parents=True)
    return run


def save(run: RunDirectory, name: str, step: int, attempt: int = 1, resumed_from: str | None = None) -> Path:
    path = run.checkpoints / name
    path.parent.mkdir(exist_ok=True)
    lun = {"format": 1, "position": {"step": step, "slot": 8 * step, "images": 8 * step}, "attempt": attempt}
    state = {"state_dict": {"w": torch.ones(2000)}, "optimizer_states": [], "lr_schedulers": [], "global_step": step}
    torch.save(state | {"lun": lun | {"resumed_from": resumed_from}}, path)
    return path


@pytest.fixture
def logdir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "logs"


def test_the_newest_is_the_highest_step_whatever_the_file_times(logdir):
    run = make_run(logdir)
    newest = save(run, "every-2k-steps.ckpt", 2000)
    save(run, "last.ckpt", 1500)
    found = find_checkpoint(str(run.path))
    assert (found.checkpoint, found.step, found.attempt) == (newest, 2000, 2)
    assert found.resumed_from == "checkpoints/every-2k-steps.ckpt"
    assert found.stored["position"]["slot"] == 16000


def test_files_in_sub_folders_are_found(logdir):
    run = make_run(logdir)
    newest = save(run, "periodic/e=0001 gs=020000.ckpt", 20000)
    save(run, "last.ckpt", 1500)
    assert find_checkpoint(str(run.path)).checkpoint == newest


def test_without_a_name_it_is_the_latest_run(logdir):
    run = make_run(logdir)
    newest = save(run, "last.ckpt", 3)
    run.link_latest()
    found = find_checkpoint(None, logdir)
    assert (found.run, found.checkpoint) == (run, newest)


def test_a_file_means_that_file_and_the_run_around_it(logdir):
    run = make_run(logdir)
    save(run, "last.ckpt", 30)
    older = save(run, "periodic/gs=10.ckpt", 10)
    found = find_checkpoint("logs/2026-11-20T11-13-02_pony/checkpoints/periodic/gs=10.ckpt")
    assert (found.run, found.checkpoint, found.step) == (run, older, 10)


@pytest.mark.parametrize("folder", ["checkpoints", "checkpoints/periodic", ""])
def test_a_folder_of_a_run_means_the_run(logdir, folder):
    run = make_run(logdir)
    newest = save(run, "periodic/gs=10.ckpt", 10)
    found = find_checkpoint(f"{run.path}/{folder}/")
    assert (found.run, found.checkpoint) == (run, newest)


def test_checkpoints_may_lie_on_another_disk(logdir, tmp_path):
    run = make_run(logdir)
    run.checkpoints.rmdir()
    (tmp_path / "big").mkdir()
    run.checkpoints.symlink_to(tmp_path / "big")
    newest = save(run, "last.ckpt", 3)
    for target in (run.path, newest):
        found = find_checkpoint(str(target))
        assert (found.run, found.resumed_from) == (run, "checkpoints/last.ckpt")


def test_the_latest_attempt_wins_over_higher_steps_of_an_abandoned_one(logdir, caplog):
    caplog.set_level("INFO")
    run = make_run(logdir)
    save(run, "periodic/2.ckpt", 2)
    save(run, "periodic/9.ckpt", 9)
    newest = save(run, "periodic/4.ckpt", 4, attempt=2, resumed_from="checkpoints/periodic/2.ckpt")
    found = find_checkpoint(str(run.path))
    assert (found.checkpoint, found.attempt) == (newest, 3)
    assert "periodic/9.ckpt (step 9)" in caplog.text


def test_an_attempt_that_saved_nothing_goes_on_from_what_it_had_resumed(logdir):
    run = make_run(logdir)
    source = save(run, "periodic/2.ckpt", 2)
    save(run, "periodic/9.ckpt", 9)
    run.write_record(replace(RECORD, attempt=2, resumed_from="checkpoints/periodic/2.ckpt"))
    found = find_checkpoint(str(run.path))
    assert (found.checkpoint, found.attempt) == (source, 3)


def test_damaged_files_are_passed_over_with_a_warning(logdir, caplog):
    run = make_run(logdir)
    whole = save(run, "a.ckpt", 1)
    flipped, cut, empty = save(run, "b.ckpt", 5), save(run, "c.ckpt", 6), save(run, "d.ckpt", 7)
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 1
    flipped.write_bytes(data)
    cut.write_bytes(cut.read_bytes()[:-500])
    empty.write_bytes(b"")
    (run.checkpoints / ".last.ckpt.tmp-77").write_bytes(b"half")
    assert find_checkpoint(str(run.path)).checkpoint == whole
    assert [name for name in "abcd" if f"{name}.ckpt" in caplog.text] == ["b", "c", "d"]


def change(path: Path, **changes: object) -> None:
    torch.save(torch.load(path, weights_only=True) | changes, path)


def test_a_file_saved_when_training_had_diverged_is_never_preferred_but_may_be_named(logdir, caplog):
    run = make_run(logdir)
    before, after = save(run, "every.ckpt", 1000), save(run, "on_exception.ckpt", 1203)
    change(after, lun={"position": {"step": 1203}, "attempt": 1, "diverged": True})
    assert find_checkpoint(str(run.path)).checkpoint == before
    assert "on_exception.ckpt: it was saved when training had diverged" in caplog.text
    assert find_checkpoint(str(after)).checkpoint == after
    before.unlink()
    with pytest.raises(Fault, match="RES01.*no whole checkpoint") as caught:
        find_checkpoint(str(run.path))
    assert "checkpoints/on_exception.ckpt: it was saved when" in caught.value.why
    assert caught.value.fix.startswith(f"--resume {after} ")


def test_a_file_with_nan_in_its_weights_is_passed_over_and_one_with_masks_is_not(logdir, caplog):
    run = make_run(logdir)
    before, after = save(run, "a.ckpt", 1), save(run, "b.ckpt", 2)
    masked = torch.full((9,), -float("inf"))
    change(before, state_dict={"cond_stage_model.attn_mask": masked, "steps": torch.tensor(3)})
    change(after, state_dict={"model.w": torch.tensor([1.0, float("nan")])})
    assert find_checkpoint(str(run.path)).checkpoint == before
    assert "b.ckpt: its weights model.w hold NaN" in caplog.text


def test_a_damaged_file_that_was_named_is_a_fault(logdir):
    path = save(make_run(logdir), "a.ckpt", 1)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(Fault, match="RES01.*damaged"):
        find_checkpoint(str(path))


def test_a_run_that_saved_nothing_tells_where_it_stopped(logdir):
    run = make_run(logdir)
    run.write_record(RECORD)
    with pytest.raises(Fault, match=r"RES01.*no checkpoint in") as caught:
        find_checkpoint(str(run.path))
    assert caught.value.why == "the run stopped at step 812, before the first save"


def test_a_run_with_damaged_files_alone_says_what_is_wrong_with_each(logdir):
    run = make_run(logdir)
    save(run, "a.ckpt", 1).write_bytes(b"")
    with pytest.raises(Fault, match="RES01.*no whole checkpoint") as caught:
        find_checkpoint(str(run.path))
    assert "checkpoints/a.ckpt: " in caught.value.why


def test_a_name_that_is_nearly_right_is_suggested(logdir):
    run = make_run(logdir)
    with pytest.raises(Fault, match="RES01.*there is no") as caught:
        find_checkpoint("logs/2026-11-20T11-13-02_ponny", logdir)
    assert caught.value.fix == f"--resume logs/{run.name}"


def test_latest_that_is_nearly_right_is_suggested(logdir):
    (logdir / "latest").symlink_to(make_run(logdir).name)
    with pytest.raises(Fault, match="RES01.*there is no") as caught:
        find_checkpoint("logs/latst", logdir)
    assert caught.value.fix == "--resume logs/latest"


def test_a_file_that_is_not_in_its_run_is_answered_by_those_that_are(logdir):
    run = make_run(logdir)
    (run.checkpoints / "gs000010.ckpt").touch()
    with pytest.raises(Fault, match="RES01.*there is no") as caught:
        find_checkpoint(str(run.checkpoints / "gs000100.ckpt"), logdir)
    assert "gs000010.ckpt" in caught.value.why
    assert caught.value.fix == f"--resume {(run.checkpoints / 'gs000010.ckpt').resolve()}"


def test_no_latest_run_is_a_fault(logdir):
    with pytest.raises(Fault, match="RES01.*no latest run"):
        find_checkpoint(None, logdir)


def test_a_folder_of_runs_is_not_a_run(logdir):
    run = make_run(logdir)
    with pytest.raises(Fault, match="RES01.*not a run directory") as caught:
        find_checkpoint("logs")
    assert run.name in caught.value.fix


def test_a_file_outside_a_run_is_only_good_to_start_from(logdir, tmp_path):
    path = tmp_path / "sd-v1-4.ckpt"
    torch.save({"state_dict": {}, "global_step": 470000, "epoch": 3}, path)
    with pytest.raises(Fault, match="RES02") as caught:
        find_checkpoint(str(path))
    assert caught.value.fix.startswith(f"--init-from {path}")


def test_weights_alone_cannot_be_resumed_even_in_a_run(logdir):
    run = make_run(logdir)
    path = run.checkpoints / "weights.ckpt"
    torch.save({"state_dict": {}}, path)
    with pytest.raises(Fault, match="RES02") as caught:
        find_checkpoint(str(path))
    assert "no training state" in caught.value.why


def test_a_run_of_2022_is_resumed_at_its_step(logdir):
    run = make_run(logdir)
    path = run.checkpoints / "every-3k-steps.ckpt"
    torch.save({"state_dict": {}, "global_step": 3000, "epoch": 2}, path)
    found = find_checkpoint(str(run.path))
    assert (found.checkpoint, found.step, found.attempt, found.stored) == (path, 3000, 2, {})


def test_looking_for_a_checkpoint_changes_nothing(logdir):
    run = make_run(logdir)
    save(run, "last.ckpt", 3)
    before = sorted(os.walk(run.path))
    find_checkpoint(str(run.path))
    assert sorted(os.walk(run.path)) == before


def test_the_checkpoints_that_a_run_keeps_are_those_that_led_to_where_it_is(logdir):
    run = make_run(logdir)
    for step in (2, 4, 9):
        save(run, f"periodic/{step}.ckpt", step)
    for step in (4, 6):
        save(run, f"periodic/{step}-attempt2.ckpt", step, attempt=2, resumed_from="checkpoints/periodic/2.ckpt")
    last = save(run, "last.ckpt", 6, attempt=2)
    change(save(run, "gone.ckpt", 7, attempt=2), lun={"position": {"step": 7}, "attempt": 2, "diverged": True})
    (run.checkpoints / "torn.ckpt").write_bytes(last.read_bytes()[:100])
    kept = [(entry.step, entry.path.relative_to(run.checkpoints).as_posix()) for entry in kept_checkpoints(run)]
    assert kept == [(2, "periodic/2.ckpt"), (4, "periodic/4-attempt2.ckpt"), (6, "last.ckpt")]
