"""What a step measured reaches loggers when a log is due, and callbacks at any step."""

import warnings
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.loggers import Logger
from torch import Tensor, nn
from torch.utils.data import DataLoader

from ldm.lightning_classes import as_lightning
from ldm.models.logged_steps import LogsSteps
from ldm.position import Position
from lun.run.lightning_trainer import ProgramTrainer


class Measured(LogsSteps):
    """Its loss is the number of the micro-batch, and what a person may log `beside` it twice that."""

    def __init__(self, beside: bool) -> None:
        super().__init__()
        self.beside = beside
        self.position = Position()
        self.weight = nn.Parameter(torch.zeros(()))
        self.dicts_logged = 0

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.5)

    def on_train_start(self) -> None:
        """Nothing: there are no settings of a checkpoint."""

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        loss = batch.float().mean() + 0 * self.weight
        self.log_window(batch_idx, {"train/loss": loss}, lr_abs=0.1)
        if self.beside:
            self.log("mine", 2 * loss)
        return loss

    def log_dict(self, *args: Any, **kwargs: Any) -> None:
        self.dicts_logged += 1
        super().log_dict(*args, **kwargs)


class Follows(Callback):
    """Moves the position, reads what callbacks can read, and stops after a step."""

    def __init__(self, stop_after: int | None) -> None:
        self.stop_after = stop_after
        self.read: list[tuple[int, float]] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx % 2:
            pl_module.position.advance(2)
            pl_module.log_step()
            self.read.append(tuple(float(trainer.callback_metrics[name]) for name in ("step", "train/loss")))
            trainer.should_stop = pl_module.position.step == self.stop_after


class Rows(Logger):
    name = version = "rows"

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, float]] = []

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        self.rows.append({"step": float(step or 0), **metrics})

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Nothing."""


def train(
    every: int, stop_after: int | None = None, beside: bool = True
) -> tuple[Measured, Follows, list[dict[str, float]]]:
    """Seven steps of two micro-batches, 0 1, 2 3, ...; their mean is 2 step - 1.5."""
    model, follows, rows = Measured(beside), Follows(stop_after), Rows()
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = ProgramTrainer(
        accelerator="cpu", devices=1, max_steps=7, accumulate_grad_batches=2, log_every_n_steps=every, logger=rows,
        callbacks=[as_lightning(follows)], **quiet
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(as_lightning(model), DataLoader(range(100)))
    return model, follows, rows.rows


def test_loggers_get_each_step_that_is_due_once_with_what_a_person_logs_beside_it() -> None:
    model, _, rows = train(every=3)
    assert [row["step"] for row in rows] == [3, 6]
    assert [row["train/loss"] for row in rows] == [4.5, 10.5]
    assert [row["mine"] for row in rows] == [10, 22]
    assert all(row["lr_abs"] == pytest.approx(0.1) for row in rows)
    assert model.dicts_logged == 2


def test_rows_of_steps_beside_which_nobody_logs_are_the_same() -> None:
    model, _, rows = train(every=3, beside=False)
    assert rows == [{"step": step, "train/loss": 2 * step - 1.5, "lr_abs": 0.1} for step in (3, 6)]
    assert model.dicts_logged == 0


def test_callbacks_read_the_metrics_of_every_step() -> None:
    _, follows, _ = train(every=3)
    assert follows.read == [(step, 2 * step - 1.5) for step in range(1, 8)]


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("stop_after", [3, 5])
def test_the_last_step_before_a_stop_is_given_to_loggers_once(stop_after: int, beside: bool) -> None:
    _, _, rows = train(every=3, stop_after=stop_after, beside=beside)
    assert [(row["step"], row["train/loss"]) for row in rows] == [
        (step, 2 * step - 1.5) for step in sorted({3, stop_after})
    ]


def test_with_an_interval_of_nought_nothing_is_logged() -> None:
    assert train(every=0, stop_after=5)[2] == []
