"""The loss scale and what it cost."""

from dataclasses import dataclass

from ldm.training.loss_scale import LossScale


@dataclass
class Scaler:
    scale: float

    def get_scale(self) -> float:
        return self.scale


def test_a_scale_that_falls_is_a_skipped_step_and_one_that_grows_is_none() -> None:
    scaler = Scaler(64.0)
    watched, found = LossScale(scaler), []
    for scaler.scale in (64.0, 32.0, 32.0, 64.0, 32.0):
        found.append(watched.watch())
    assert [told["train/skipped_steps"] for told in found] == [0, 1, 1, 1, 2]
    assert [told["train/loss_scale"] for told in found] == [64, 32, 32, 64, 32]


def test_without_a_scaler_nothing_is_told() -> None:
    assert LossScale(None).watch() == {}
