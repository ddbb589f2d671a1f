"""What callbacks ask of the model and of the data: by method and attribute, so that neither is imported here."""

from typing import Any, Protocol

from ldm.position import Position


class TrainingModule(Protocol):
    """The side of a LightningModule that savers and stops see."""

    position: Position
    model_ema: Any
    base: Any
    gradient_norm: Any
    split_weights: Any

    def window_completed(self, examples: int) -> None:
        """Count a completed window of `examples` examples over all ranks, and update the averaged weights."""


class TrainingData(Protocol):
    """The side of a datamodule that savers see; `epoch` is ours, as it follows from the position."""

    batch_size: int
    global_batch: int
    epoch: int

    def state_dict_of_data(self) -> dict[str, Any]:
        """What the order of examples depends on: n, global_batch, fingerprint, seed; of several sets more."""

    def laps(self) -> dict[str, float]:
        """How often each of several sets was read in full, by name."""

    def dataset(self, split: str) -> Any:
        """The dataset of `train` or `validation`."""

    def has(self, split: str) -> bool:
        """Whether there is one."""

    def files(self, micro: int | None = None, slot: int | None = None) -> list[str]:
        """What this rank reads in the step that begins at a slot, by default that at work: all, or one micro-batch."""


def model_of(pl_module: Any) -> TrainingModule:
    model: TrainingModule = pl_module
    return model


def step_of(pl_module: Any) -> int:
    """Completed optimizer steps."""
    position: Position = pl_module.position
    return position.step


def data_of(trainer: Any) -> TrainingData:
    data: TrainingData = trainer.datamodule
    return data
