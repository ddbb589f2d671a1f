"""Losses of single examples: kept with their noise levels, read once."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.objective import Losses
from ldm.diffusion.path import DDPMPath
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.models.example_losses import OWN, ExampleLosses
from ldm.models.metrics import Measured

PATH = DDPMPath()


def model(training: bool = True, swapped: bool = False) -> Any:
    first_stage = SimpleNamespace(downsampling=8)
    return SimpleNamespace(training=training, model_ema=SimpleNamespace(swapped=swapped), first_stage_model=first_stage)


def batch_of(t: torch.Tensor, losses: list[float], of: Any = None, **batch: Any) -> Measured:
    simple = torch.tensor(losses)
    x0 = torch.zeros(len(losses), 4, 8, 4)
    return Measured(of or model(), batch, x0, Conditioning(), BatchDraws(0, []), Losses(t, simple, 2 * simple))


def test_nothing_is_kept_unless_somebody_watches() -> None:
    examples = ExampleLosses()
    examples.add(batch_of(torch.tensor([1, 2]), [1.0, 2.0]))
    examples.watch()
    assert {name: len(column) for name, column in examples.take("train", PATH).items()} == dict.fromkeys(OWN, 0)


def test_rows_have_the_unweighted_loss_the_level_the_number_the_size_and_columns_of_ones_own() -> None:
    examples = ExampleLosses()
    examples.watch({"red": lambda batch: [float("red" in caption) for caption in batch["caption"]]})
    batch = {"example": torch.tensor([7, 3]), "slot": torch.tensor([0, 1]), "caption": ["red", "blue"]}
    examples.add(batch_of(torch.tensor([0, 999]), [1.0, 2.0], **batch))
    rows = examples.take("train", PATH)
    assert rows["loss"].tolist() == [1.0, 2.0] and rows["example"].tolist() == [7, 3]
    assert rows["width"].tolist() == [32, 32] and rows["height"].tolist() == [64, 64] and rows["red"].tolist() == [1, 0]
    assert rows["log_snr"] == pytest.approx(PATH.log_snr(torch.tensor([0, 999])).numpy())
    assert not len(examples.take("train", PATH)["loss"])


@pytest.mark.parametrize(
    ("of", "phase"), [(model(), "train"), (model(False), "val"), (model(False, swapped=True), "val_ema")]
)
def test_training_and_validation_by_raw_and_averaged_weights_are_kept_apart(of: Any, phase: str) -> None:
    examples = ExampleLosses()
    examples.watch()
    examples.add(batch_of(torch.tensor([0.25]), [1.0], of, slot=torch.tensor([0])))
    counts = {name: len(examples.take(name, RectifiedFlow())["loss"]) for name in ("train", "val", "val_ema")}
    assert counts == {"train": 0, "val": 0, "val_ema": 0} | {phase: 1}


def test_examples_that_only_fill_a_batch_up_are_left_out_and_a_level_of_flow_is_real() -> None:
    examples = ExampleLosses()
    examples.watch()
    examples.add(batch_of(torch.tensor([0.25, 1.0]), [1.0, 5.0], slot=torch.tensor([0, -1])))
    rows = examples.take("train", RectifiedFlow())
    assert rows["loss"].tolist() == [1.0] and rows["log_snr"] == pytest.approx([2 * np.log(3)])
    assert rows["example"].tolist() == [-1]
