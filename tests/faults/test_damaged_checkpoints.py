"""Checkpoints that came to harm: passed over with a warning, or refused in words, never trained on."""

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from support.damage import DAMAGES, flips
from support.equality import differences
from support.parts import put_in_parts
from support.runs import TINY, load, make_pictures, newest_run
from support.warm import VALIDATION

from lun.checkpoints.atomic import unreadable
from lun.run_dir.resume import find_checkpoint
from lun.trainer import run

SAVERS = [
    "lightning.callbacks.periodic_checkpoint_overwrite={target: lun.callbacks.Checkpoint,"
    " params: {filename: every-2k-steps, every_n_train_steps: 2}}",
    "lightning.callbacks.periodic_checkpoint={target: lun.callbacks.Checkpoint,"
    " params: {filename: 'periodic/e={epoch:04d} gs={step:06d}', every_n_train_steps: 3, save_top_k: -1}}",
    "lightning.callbacks.monitored_checkpoint={target: lun.callbacks.Checkpoint, params:"
    " {filename: 'monitor/gs={step:06d}', monitor: val/loss_simple_ema, mode: max, save_top_k: -1}}",
]
KINDS = {
    "last": "last.ckpt",
    "every-2k": "every-2k-steps.ckpt",
    "periodic": "periodic/e=0001 gs=000006.ckpt",
    "monitor": "monitor/gs=000005.ckpt",
    "first": "periodic/e=0000 gs=000003.ckpt",
}
"""What a run of 7 steps leaves, newest first: steps 7, 6, 6, 5 and 3."""


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    words = ["--base", str(TINY), "--logdir", str(folder / "logs"), "--data_root", str(make_pictures(folder, 11))]
    settings = ["lightning.trainer.max_steps=7", "lightning.trainer.val_check_interval=5", VALIDATION, *SAVERS]
    assert run([*words, *settings, "-t"]) == 0
    found = newest_run(folder / "logs")
    assert {path.relative_to(found / "checkpoints").as_posix() for path in found.rglob("*.ckpt")} >= {*KINDS.values()}
    return found


@pytest.fixture
def copy(whole_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole_run, tmp_path / "run"))


def only(copy: Path, *kinds: str) -> list[Path]:
    """The files of these kinds, all others removed."""
    kept = [copy / "checkpoints" / KINDS[kind] for kind in kinds]
    for path in copy.rglob("*.ckpt"):
        if path not in kept:
            path.unlink()
    return kept


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(("kind", "next_best"), [*pairwise(KINDS)])
def test_a_damaged_checkpoint_is_passed_over_for_the_next_best(
    copy: Path, kind: str, next_best: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    harmed, other = only(copy, kind, next_best)
    DAMAGES[damage](harmed)
    assert find_checkpoint(str(copy)).checkpoint == other
    assert f"passing over {harmed}" in caplog.text


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_checkpoint_in_parts_is_passed_over_where_a_part_is_damaged(
    copy: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    harmed, other = only(copy, "last", "every-2k")
    shard = put_in_parts(harmed)
    assert find_checkpoint(str(copy)).checkpoint == harmed
    DAMAGES[damage](shard)
    assert find_checkpoint(str(copy)).checkpoint == other
    assert f"passing over {harmed}: " in caplog.text and shard.name in caplog.text


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_that_is_named_is_refused(
    copy: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    harmed = copy / "checkpoints/last.ckpt"
    DAMAGES[damage](harmed)
    assert run(["-r", str(harmed), "-t"]) == 2
    seen = capsys.readouterr()
    assert seen.err.startswith(f"error[RES01]: {harmed} is damaged and cannot be resumed")
    assert f"--resume {copy}" in seen.err


def test_a_run_with_damaged_checkpoints_alone_lists_them(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in only(copy, "last", "periodic"):
        DAMAGES["flipped"](path)
    assert run(["-r", str(copy), "-t"]) == 2
    seen = capsys.readouterr().err
    assert seen.startswith(f"error[RES01]: no whole checkpoint in {copy}")
    assert all(KINDS[kind] in seen for kind in ("last", "periodic"))


def test_a_resume_past_a_damaged_file_ends_as_if_nothing_had_happened(copy: Path, whole_run: Path) -> None:
    newest, _ = only(copy, "last", "monitor")
    DAMAGES["flipped"](newest)
    assert run(["-r", str(copy), "-t"]) == 0
    states = [load(path / "checkpoints/last.ckpt") for path in (whole_run, copy)]
    for state in states:
        state.pop("callbacks")
        state["lun"] = state["lun"]["position"]
    assert differences(*states) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_gives_no_weights_to_a_new_run(
    copy: Path, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    harmed = copy / "checkpoints/last.ckpt"
    DAMAGES[damage](harmed)
    words = ["--base", str(TINY), "--logdir", str(tmp_path / "logs"), "--data_root", str(make_pictures(tmp_path, 3))]
    assert run([*words, "--init-from", str(harmed), "lightning.trainer.max_steps=1", "-t"]) == 4
    seen = capsys.readouterr()
    assert seen.err.startswith(f"error[MOD02]: {harmed}")


def check_flips(whole: Path, copy: Path, count: int) -> int:
    """Flip bit after bit; returns how many were noticed. What was not noticed has to be of no consequence."""
    state, noticed = load(whole), 0
    for position in flips(whole, copy, count):
        if unreadable(copy):
            noticed += 1
        else:
            assert differences(state, load(copy)) == [], f"bit at {position} changes what is read"
    return noticed


def test_a_flipped_bit_is_noticed_or_of_no_consequence(whole_run: Path, tmp_path: Path) -> None:
    assert check_flips(whole_run / "checkpoints/last.ckpt", tmp_path / "copy.ckpt", 60) > 40


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_flipped_bits(whole_run: Path, tmp_path: Path, kind: str) -> None:
    print(check_flips(whole_run / "checkpoints" / KINDS[kind], tmp_path / "copy.ckpt", 1000), "of 1000 noticed")
