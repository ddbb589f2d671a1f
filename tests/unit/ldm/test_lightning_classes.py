"""Models, callbacks and data modules that know nothing of Lightning, and are Lightning's where a Trainer gets them."""

import copy
import pickle
from typing import Any

import pytest
import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch import Callback, LightningDataModule, LightningModule
from lightning.pytorch.callbacks import EarlyStopping, ProgressBar
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch import nn

from ldm import lightning_classes
from ldm.admission import get_obj_from_str
from ldm.lightning_classes import as_lightning
from ldm.lightning_module import LightningModule as LightningStandIn
from ldm.training.optimized import OptimizedModel
from lun.callbacks import AtomicIO, Checkpoint, SmoothedProgressBar, Throughput
from lun.data.module import DataModuleFromConfig


class Model(OptimizedModel):
    """One weight, stepped by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("made", "base"),
    [
        (Model, LightningModule),
        (Throughput, Callback),
        (SmoothedProgressBar, ProgressBar),
        (AtomicIO, TorchCheckpointIO),
        (lambda: DataModuleFromConfig(1), LightningDataModule),
    ],
)
def test_an_object_is_lightnings_once_it_is_asked_for_and_stays_of_its_class_and_name(made: Any, base: type) -> None:
    one = made()
    kind = type(one)
    assert not isinstance(one, base)
    assert as_lightning(one) is as_lightning(one)
    assert isinstance(one, base) and isinstance(one, kind)
    assert (type(one).__name__, type(one).__module__, type(one).__qualname__, type(one).__doc__) == (
        kind.__name__, kind.__module__, kind.__qualname__, kind.__doc__
    )  # fmt: skip
    assert type(one) is type(as_lightning(made()))


@pytest.mark.parametrize("one", [EarlyStopping("loss"), nn.Linear(1, 1), "text"])
def test_what_is_lightnings_already_or_nothing_of_it_stays_as_it_is(one: object) -> None:
    kind = type(one)
    assert as_lightning(one) is one and type(one) is kind


def test_hooks_are_found_and_states_are_stored_under_the_same_names() -> None:
    saver = Checkpoint("every", every_n_train_steps=2)
    key = saver.state_key
    as_lightning(saver)
    assert saver.state_key == key
    assert as_lightning(Throughput()).state_key == "Throughput"
    assert is_overridden("on_train_batch_end", as_lightning(Throughput()), Callback)
    assert not is_overridden("on_validation_batch_end", as_lightning(Throughput()), Callback)
    assert is_overridden("training_step", as_lightning(Model()), LightningModule)


def test_weights_stay_and_what_lightning_manages_is_as_it_was_set() -> None:
    model = Model()
    model.strict_loading = False
    weight = model.weight
    as_lightning(model)
    assert dict(model.named_parameters())["weight"] is weight
    assert (model.automatic_optimization, model.strict_loading) == (False, False)
    with pytest.raises(RuntimeError, match="not attached"):
        _ = model.trainer


def test_a_progress_bar_has_the_refresh_rate_that_was_asked_for() -> None:
    assert as_lightning(SmoothedProgressBar(refresh_rate=7)).refresh_rate == 7


def test_a_model_knows_its_device_before_and_after() -> None:
    model = Model().to("meta")
    assert model.device.type == "meta"
    assert as_lightning(Model()).to("meta").device.type == "meta"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_is_lightnings_as_well_and_has_weights_of_its_own(copied: Any) -> None:
    model = as_lightning(OptimizedModel())
    model.weight = nn.Parameter(torch.arange(3.0))
    other = copied(model)
    assert type(other) is type(model)
    assert torch.equal(other.weight, model.weight) and other.weight is not model.weight
    assert type(copied(as_lightning(Throughput()))) is type(as_lightning(Throughput()))


def test_sharding_finds_the_class_as_it_is() -> None:
    """FSDP2 makes a class of its own of the one it finds."""
    model = as_lightning(Model())
    model.__class__ = type("FSDPModel", (type(model),), {})
    assert as_lightning(model).__class__.__name__ == "FSDPModel"


def test_every_stand_in_is_of_a_class_that_lightning_has() -> None:
    stand_ins = [LightningStandIn, *(one for one in vars(lightning_classes).values() if hasattr(one, "stands_for"))]
    assert len(stand_ins) == 5
    for stand_in in stand_ins:
        assert get_obj_from_str(stand_in.stands_for).__name__ == stand_in.__name__
