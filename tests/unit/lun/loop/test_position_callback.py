from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback

from lun.callbacks import Checkpoint
from lun.checkpoints.atomic import peek

STEPS = 7
CHAINS = [(3,), (1, 2, 4), (2, 4, 6), (6,)]


class Crash(Exception):
    pass


class CrashAt(Callback):
    """Breaks off between two steps, after the savers before it in the list have acted."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if pl_module.position.step == self.step:
            raise Crash


def saver() -> Checkpoint:
    return Checkpoint("gs={step:03d}", every_n_train_steps=1, save_top_k=-1)


def run_chain(training, root: Path, stops: tuple[int, ...], **arguments):
    """A run that is broken off after each of `stops` and resumed from the file of that step."""
    resume, seen, validated = None, [], []
    for stop in (*stops, STEPS):
        tiny = training(STEPS, saver(), CrashAt(stop if stop < STEPS else -1), **arguments)
        with nullcontext() if stop == STEPS else pytest.raises(Crash):
            tiny.fit(resume)
        seen += [entry for entry in tiny.module.seen if entry[0] < stop]
        validated += tiny.module.validated
        resume = root / f"checkpoints/gs={stop:03d}.ckpt"
    return tiny, seen, validated


@pytest.mark.parametrize("stops", CHAINS)
@pytest.mark.parametrize(("accumulate", "manual"), [(1, False), (3, False), (3, True)])
def test_a_chain_of_resumes_ends_in_the_very_state_of_a_straight_run(training, tmp_path, stops, accumulate, manual):
    arguments = {"accumulate": accumulate, "manual": manual, "validate_every": 2}
    straight = training(STEPS, saver(), **arguments).fit()
    expected = torch.load(tmp_path / f"checkpoints/gs={STEPS:03d}.ckpt", weights_only=True)
    resumed, seen, validated = run_chain(training, tmp_path, stops, **arguments)
    actual = torch.load(tmp_path / f"checkpoints/gs={STEPS:03d}.ckpt", weights_only=True)
    assert_same(actual, expected)
    assert seen == straight.module.seen
    assert validated == straight.module.validated == [2, 4, 6]
    assert resumed.trainer.global_step == straight.trainer.global_step
    stepped = [tiny.trainer.fit_loop.epoch_loop._batches_that_stepped for tiny in (resumed, straight)]
    assert stepped[0] == stepped[1]


def assert_same(actual, expected, path=""):
    assert type(actual) is type(expected), path
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys(), path
        for key in expected:
            assert_same(actual[key], expected[key], f"{path}/{key}")
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected), path
        for index, pair in enumerate(zip(actual, expected, strict=True)):
            assert_same(*pair, f"{path}/{index}")
    elif isinstance(expected, torch.Tensor):
        assert torch.equal(actual, expected), path
    else:
        assert actual == expected, path


def test_without_the_seating_validations_move(training, tmp_path, monkeypatch):
    monkeypatch.setattr("lun.loop.position_callback.restore_loop_counters", lambda *_: None)
    _, _, validated = run_chain(training, tmp_path, (3,), validate_every=2)
    assert validated != [2, 4, 6]


def test_a_checkpoint_says_where_it_stands_in_our_counts(training, tmp_path):
    training(4, saver(), accumulate=3, attempt=2).fit()
    state = peek(tmp_path / "checkpoints/gs=004.ckpt")
    assert "loops" not in state
    assert (state["global_step"], state["epoch"]) == (4, 2)
    stored = state["lun"]
    assert stored["position"] == {"step": 4, "slot": 24, "images": 24}
    assert stored["data"] == {"n": 11, "global_batch": 6, "fingerprint": "f00d", "seed": 0}
    assert (stored["format"], stored["attempt"], stored["resumed_from"]) == (1, 2, "checkpoints/x.ckpt")
    assert stored["threads"] == torch.get_num_threads()


def test_resuming_a_finished_run_trains_no_further(training, tmp_path):
    training(4, saver()).fit()
    again = training(4, saver()).fit(tmp_path / "checkpoints/gs=004.ckpt")
    assert again.module.position.step == 4
    assert again.module.seen == []


def test_resuming_beyond_the_length_of_the_run_trains_no_further(training, tmp_path):
    training(4, saver()).fit()
    again = training(3, saver()).fit(tmp_path / "checkpoints/gs=004.ckpt")
    assert (again.module.position.step, again.module.seen) == (4, [])


def test_an_accepted_change_of_data_moves_the_slot_but_no_count(training, tmp_path):
    training(4, saver()).fit()
    moved = training(4, saver(), slot=22).fit(tmp_path / "checkpoints/gs=004.ckpt")
    assert moved.module.position.state_dict() == {"step": 4, "slot": 22, "images": 8}


def test_a_file_of_2022_goes_on_with_step_and_epoch_and_a_fresh_optimizer(training, tmp_path):
    weights = training(1).module.state_dict()
    path = tmp_path / "old.ckpt"
    torch.save({"state_dict": weights, "global_step": 3, "epoch": 2, "pytorch-lightning_version": "1.7.6"}, path)
    tiny = training(5, saver()).fit(path)
    assert tiny.module.position.state_dict() == {"step": 5, "slot": 26, "images": 26}
    assert tiny.trainer.optimizers[0].state_dict()["state"][0]["step"] == 2


def test_another_number_of_threads_is_told(training, tmp_path, caplog):
    training(1, saver()).fit()
    path = tmp_path / "checkpoints/gs=001.ckpt"
    state = torch.load(path, weights_only=True)
    state["lun"]["threads"] += 7
    torch.save(state, path)
    training(1, saver()).fit(path)
    assert "last bits may differ" in caplog.text


def test_the_window_is_dirty_only_between_optimizer_and_position(training):
    tiny = training(2, accumulate=3)
    noted = []
    step = tiny.module.optimizer_step
    completed = tiny.module.window_completed

    def noting_step(*args, **kwargs):
        noted.append(("before", tiny.follow.dirty))
        step(*args, **kwargs)
        noted.append(("after", tiny.follow.dirty))

    def noting_completed(examples):
        completed(examples)
        noted.append(("moved", tiny.follow.dirty))

    tiny.module.optimizer_step = noting_step
    tiny.module.window_completed = noting_completed
    tiny.fit()
    assert noted == [("before", False), ("after", True), ("moved", True)] * 2
    assert not tiny.follow.dirty
