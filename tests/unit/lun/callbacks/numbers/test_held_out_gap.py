"""When the loss of pictures held out rises, and what is named then."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ldm.errors import Fault
from lun.callbacks import HeldOutGap
from lun.callbacks.numbers.held_out_gap import HeldOutLosses, Met, losses_of_trained, nearest_checkpoint
from lun.checkpoints.manifest import Manifest


def begun(folder: Path, averaged: bool = False, **params: int) -> HeldOutGap:
    data: Any = SimpleNamespace(has=lambda split: True)
    trainer: Any = SimpleNamespace(log_every_n_steps=1, datamodule=data, default_root_dir=str(folder))
    model: Any = SimpleNamespace(examples=SimpleNamespace(watch=lambda columns: None))
    model.model_ema = object() if averaged else None
    made = HeldOutGap(**params)
    made.setup(trainer, model, "fit")
    made.on_validation_epoch_end(trainer, model)
    made._of_trained = {"slot": np.array([4.0, 5.0, 6.0]), "loss": np.array([1.0, 2.0, np.nan])}
    return made


def rows(*losses: float) -> dict[str, Any]:
    return {"slot": np.array([4.0, 5.0, 6.0, 7.0]), "loss": np.array(losses)}


def test_the_gap_is_that_of_pictures_that_met_the_same_noise(tmp_path: Path) -> None:
    made = begun(tmp_path)
    assert made.measure("val", rows(2.0, 4.0, 50.0, 90.0), 1) == {"val/loss_of_trained": 1.5, "val/gap": 1.5}
    assert made.measure("train", rows(2.0, 4.0, 50.0, 90.0), 1) == {}


@pytest.mark.parametrize("averaged", [False, True])
def test_a_loss_that_rises_again_and_again_is_told_once_with_the_best_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, averaged: bool
) -> None:
    (tmp_path / "checkpoints/monitor").mkdir(parents=True)
    for name, step in (("last.ckpt", 60), ("monitor/0.3.ckpt", 25)):
        (tmp_path / "checkpoints" / name).touch()
        Manifest(0, "", step).write(tmp_path / "checkpoints" / name)
    made, told = begun(tmp_path, averaged, patience=2), []
    for number, loss in enumerate((9.0, 3.0, 4.0, 5.0, 6.0, 7.0), start=1):
        made.measure("val", rows(*[10.0 - loss if averaged else loss] * 4), 10 * number)
        if averaged:
            made.measure("val_ema", rows(*[loss] * 4), 10 * number)
        again = begun(tmp_path, averaged, patience=2)
        again.load_state_dict(made.state_dict())
        made = again
        told.append(len(caplog.messages))
    assert told == [0, 0, 0, 1, 1, 1]
    assert "2 times in a row, to 5; best at step 20: 3" in caplog.text
    assert "nearest: checkpoints/monitor/0.3.ckpt of step 25" in caplog.text


def test_one_better_validation_in_between_begins_anew() -> None:
    course = HeldOutLosses()
    assert [course.rises(step, loss) for step, loss in enumerate((3.0, 4.0, 5.0, 4.5, 5.0))] == [0, 1, 2, 0, 1]
    assert course.rises(4, 9.0) == 1  # the same validation once more


def test_where_no_training_picture_is_read_at_a_size_nothing_is_compared() -> None:
    """It is computed all the same, for ranks that share out weights."""
    batch, computed = {"slot": torch.tensor([4, 5])}, []

    def losses(x0: Any, cond: Any, draws: Any, told: Any) -> Any:
        computed.append(told)
        return SimpleNamespace(simple=torch.ones(2))

    model = SimpleNamespace(draws=lambda *_: None, encode=lambda *_: None, condition=lambda *_: None, losses=losses)
    trainer = SimpleNamespace(train_dataloader=SimpleNamespace(once=iter))
    trainer.precision_plugin = SimpleNamespace(val_step_context=nullcontext)
    (found,) = losses_of_trained(trainer, model, [Met([4, 5], [], batch)])
    assert found.isnan().all() and computed == [batch]


def test_without_a_checkpoint_none_is_named(tmp_path: Path) -> None:
    assert nearest_checkpoint(tmp_path, 5) is None


def test_without_pictures_held_out_a_note_says_that_it_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    data = SimpleNamespace(has=lambda split: False)
    trainer: Any = SimpleNamespace(log_every_n_steps=1, datamodule=data, default_root_dir="")
    model: Any = SimpleNamespace(examples=SimpleNamespace(watch=lambda columns: None))
    with caplog.at_level("INFO"):
        HeldOutGap().setup(trainer, model, "fit")
    assert "no pictures are held out" in caplog.text


@pytest.mark.parametrize("params", [{"pictures": 0}, {"patience": 0}])
def test_settings_out_of_range_are_refused(params: dict[str, int]) -> None:
    with pytest.raises(Fault, match="cannot be"):
        HeldOutGap(**params)
