from types import SimpleNamespace

import pytest
import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.plugins.io import AsyncCheckpointIO
from lightning.pytorch.strategies import DDPStrategy
from torch import nn

import lun.callbacks
from ldm.errors import Fault
from lun.checkpoints.saving import cause, prepare_saving, require_background, weights_are_finite


class FullDisk:
    def write(self, data):
        raise OSError(28, "No space left on device")

    def flush(self):
        pass


def test_a_full_disk_is_named_though_the_zip_writer_hides_it():
    with pytest.raises((RuntimeError, OSError)) as caught:
        torch.save({"w": torch.ones(9)}, FullDisk())
    assert cause(caught.value) == "No space left on device"


def test_an_error_without_a_cause_is_named_by_its_first_line():
    assert cause(RuntimeError("unexpected pos\nframe #0: ...")) == "unexpected pos"
    assert cause(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_one_bad_weight_among_many_is_found(value):
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    assert weights_are_finite(module)
    module[1].weight.data[2, 2] = value
    assert not weights_are_finite(module)


def test_frozen_weights_are_not_looked_at():
    module = nn.Linear(3, 3).requires_grad_(False)
    module.weight.data.fill_(float("nan"))
    assert weights_are_finite(module)


def test_every_public_callback_of_these_modules_can_be_named_from_the_package():
    for name in ("AtStepBoundary", "FollowPosition", "AtomicIO", "Checkpoint", "FinalCheckpoint", "Stops"):
        assert getattr(lun.callbacks, name).__name__ == name
    with pytest.raises(AttributeError, match="Checkpont"):
        lun.callbacks.Checkpont  # noqa: B018


class Ranks:
    """A strategy that spreads weights: this rank holds `held`, and all ranks agree by `others`."""

    def __init__(self, held, others=True):
        self.ema_source = SimpleNamespace(tensors=lambda: {"weight": held})
        self.others = others

    def reduce_boolean_decision(self, decision):
        return decision and self.others


@pytest.mark.parametrize(
    ("held", "others", "finite"), [(1.0, True, True), (float("nan"), True, False), (1.0, False, False)]
)
def test_where_weights_are_spread_each_rank_judges_its_own_and_all_agree(held, others, finite):
    module = nn.Linear(0, 0)  # empty, as parameters are under ZeRO-3
    module.trainer = SimpleNamespace(strategy=Ranks(torch.tensor([held]), others))
    assert weights_are_finite(module) is finite


def test_only_our_writer_writes_in_parts_and_never_in_the_background(tmp_path):
    strategy = DDPStrategy()
    strategy.saves_in_parts = True
    trainer = SimpleNamespace(strategy=strategy, is_global_zero=True)
    strategy.checkpoint_io = AsyncCheckpointIO()
    with pytest.raises(Fault, match="AsyncCheckpointIO cannot write checkpoints in parts"):
        prepare_saving(trainer, tmp_path)
    strategy.checkpoint_io = TorchCheckpointIO()
    prepare_saving(trainer, tmp_path)
    with pytest.raises(Fault, match="in the background"):
        require_background(trainer)
    strategy.saves_in_parts = False
    require_background(trainer)
