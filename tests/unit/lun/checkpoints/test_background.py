import threading

import pytest
import torch
from lightning.pytorch import Callback

from ldm.errors import Fault
from lun.callbacks import Checkpoint, FinalCheckpoint
from lun.checkpoints.atomic import AtomicIO, peek, unreadable
from lun.checkpoints.background import Background, copied


def test_a_copy_shares_nothing_with_its_original_and_keeps_what_its_tensors_share():
    weight = torch.arange(6.0)
    state = {"a": weight, "view": weight[2:4], "nested": [(weight.reshape(2, 3).t(), {"n": [1]})]}
    copy = copied(state)
    weight.zero_()
    state["nested"][0][1]["n"].append(2)
    assert copy["a"].tolist() == [0, 1, 2, 3, 4, 5]
    assert copy["view"].tolist() == [2, 3]
    assert copy["nested"][0][0].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert copy["nested"][0][1] == {"n": [1]}
    assert copy["a"].untyped_storage().data_ptr() == copy["view"].untyped_storage().data_ptr()


def test_a_second_file_waits_for_the_first():
    background, order, released = Background(), [], threading.Event()

    def save(state, name):
        if name == "first":
            released.wait(10)
        order.append(name)

    background.write(save, {}, "first")
    threading.Timer(0.05, released.set).start()
    background.write(save, {}, "second").result()
    assert order == ["first", "second"]


class Held:
    """Makes the writing of checkpoints wait until training has reached a step."""

    def __init__(self, monkeypatch, until: int, error: Exception | None = None) -> None:
        self.reached = threading.Event()
        self.until = until
        self.written_while_at: list[int] = []
        real, held = AtomicIO.save_checkpoint, self

        def save(io, checkpoint, path, storage_options=None):
            if threading.current_thread() is not threading.main_thread():
                assert held.reached.wait(20)
                if error is not None and checkpoint["global_step"] == 2:
                    raise error
            real(io, checkpoint, path, storage_options)

        monkeypatch.setattr(AtomicIO, "save_checkpoint", save)

    def callback(self) -> Callback:
        class Reach(Callback):
            def on_train_batch_end(_, trainer, pl_module, *__):
                if pl_module.position.step >= self.until:
                    self.reached.set()

        return Reach()


def test_training_goes_on_while_the_file_of_an_earlier_step_is_written(training, tmp_path, monkeypatch):
    held = Held(monkeypatch, until=4)
    saver = Checkpoint("gs={step}", every_n_train_steps=2, save_top_k=-1, async_save=True)
    training(5, saver, held.callback(), FinalCheckpoint()).fit()
    monkeypatch.undo()
    (tmp_path / "straight").mkdir()
    plain = Checkpoint("gs={step}", every_n_train_steps=2, save_top_k=-1)
    training(5, plain, FinalCheckpoint(), default_root_dir=tmp_path / "straight").fit()
    for name in ("gs=2.ckpt", "gs=4.ckpt"):
        ours, theirs = (peek(root / "checkpoints" / name) for root in (tmp_path, tmp_path / "straight"))
        assert unreadable(tmp_path / "checkpoints" / name) is None
        assert torch.equal(ours["state_dict"]["net.weight"], theirs["state_dict"]["net.weight"])
        assert torch.equal(
            ours["optimizer_states"][0]["state"][0]["exp_avg"], theirs["optimizer_states"][0]["state"][0]["exp_avg"]
        )


def test_a_failure_is_told_at_a_later_step_and_the_next_save_is_tried(training, tmp_path, monkeypatch, caplog):
    held = Held(monkeypatch, until=2, error=OSError(28, "No space left on device"))
    saver = Checkpoint("gs={step}", every_n_train_steps=1, async_save=True)
    training(4, saver, held.callback()).fit()
    assert saver.failed == 1
    assert "could not save checkpoints/gs=2.ckpt: No space left on device" in caplog.text
    assert [path.name for path in (tmp_path / "checkpoints").glob("*.ckpt")] == ["gs=4.ckpt"]
    assert [entry.step for entry in saver.saved] == [4]


def test_the_old_file_goes_only_once_the_new_one_is_there(training, tmp_path, monkeypatch):
    real, seen = AtomicIO.save_checkpoint, []

    def save(io, checkpoint, path, storage_options=None):
        real(io, checkpoint, path, storage_options)
        seen.append(sorted(p.name for p in path.parent.glob("*.ckpt")))

    monkeypatch.setattr(AtomicIO, "save_checkpoint", save)
    training(3, Checkpoint("gs={step}", every_n_train_steps=1, async_save=True)).fit()
    assert seen == [["gs=1.ckpt"], ["gs=1.ckpt", "gs=2.ckpt"], ["gs=2.ckpt", "gs=3.ckpt"]]
    assert [path.name for path in (tmp_path / "checkpoints").glob("*.ckpt")] == ["gs=3.ckpt"]


def test_the_end_of_a_run_waits_also_when_an_error_ends_it(training, tmp_path, monkeypatch):
    saver = Checkpoint("every", every_n_train_steps=2, async_save=True)
    tiny = training(5, saver)
    tiny.module.on_before_zero_grad = lambda optimizer: 1 / 0 if tiny.module.position.step == 2 else None
    with pytest.raises(ZeroDivisionError):
        tiny.fit()
    assert unreadable(tmp_path / "checkpoints/every.ckpt") is None


def test_a_strategy_whose_ranks_write_together_is_refused(training, monkeypatch):
    monkeypatch.setattr("lightning.pytorch.strategies.SingleDeviceStrategy", Fault)
    with pytest.raises(Fault, match="CFG08"):
        training(1, Checkpoint("every", every_n_train_steps=1, async_save=True)).fit()
