"""Each optimizer, schedule, logger, callback and strategy that a config may name works, or is refused with what to do.

All of them are found in the libraries themselves, so that a new version's are tried, too.
"""

import importlib
import inspect
import io
import math
import pkgutil
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies import Strategy, StrategyRegistry
from support.tried import TRIED
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from ldm import lr_scheduler
from ldm.admission import definition, refusal
from ldm.errors import Fault
from ldm.models.base import TrainedModel
from ldm.training.schedule import factors_of
from lun.config.declared.declarations import declared
from lun.config.insides import INSIDES
from lun.config.targets import find_target
from lun.config.unfit import NEEDS, ONES_TRIED, UNFIT
from lun.strategies.strategy_names import NAMES, strategy_of

HOMES = (
    "torch.optim",
    "torch.optim.swa_utils",
    "transformers.optimization",
    "transformers.trainer_pt_utils",
    "schedulefree",
    "prodigyopt",
    "lightning.pytorch.callbacks",
    "lightning.pytorch.loggers",
    "lightning.pytorch.strategies",
)
PARAMS: dict[str, dict[str, Any]] = {
    "transformers.optimization.Adafactor": {"relative_step": False, "scale_parameter": False},
    "ldm.training.several_optimizers.Joined": {
        "otherwise": "adamw",
        "optimizers": {
            "adamw": {"target": "torch.optim.AdamW"},
            "muon": {"target": "ldm.training.matrices.Muon"},
        },
    },
}
MORE = [
    *(f"{package}.{name}" for package, names in ONES_TRIED.items() for name in sorted(names)),
    "ldm.training.matrices.Adafactor",
    "ldm.training.several_optimizers.Joined",
]
RULES = {"muon": {"match": "net.*", "ndim": [2, 4], "optimizer": "muon"}}
"""Of the parts of `Joined`."""
STEP_SIZE: dict[str, dict[str, Any]] = {
    "StepLR": {"step_size": 2},
    "MultiStepLR": {"milestones": [1, 3]},
    "ExponentialLR": {"gamma": 0.9},
    "CosineAnnealingLR": {"T_max": 4},
    "CosineAnnealingWarmRestarts": {"T_0": 2},
    "CyclicLR": {"base_lr": 0.1, "max_lr": 0.2, "cycle_momentum": False},
    "OneCycleLR": {"max_lr": 0.2, "total_steps": 9, "cycle_momentum": False},
    "LambdaLR": {"lr_lambda": {"target": "ldm.lr_scheduler.WarmupConstant"}},
    "MultiplicativeLR": {"lr_lambda": {"target": "ldm.lr_scheduler.WarmupConstant"}},
    "SequentialLR": {
        "schedulers": [{"target": f"torch.optim.lr_scheduler.{name}LR"} for name in ("Linear", "Polynomial")],
        "milestones": [2],
    },
    "ChainedScheduler": {"schedulers": [{"target": "torch.optim.lr_scheduler.ConstantLR"}]},
    "SWALR": {"swa_lr": 0.05},
    "WarmupCosine": {"total_steps": 8},
    "WarmupLinear": {"total_steps": 8},
    "WarmupRestarts": {"total_steps": 8},
    "WarmupRex": {"total_steps": 8},
}
ELSEWHERE = ("deepspeed.ops.", "bitsandbytes.")
"""Built by a compiler or for a GPU, so they are not tried here: on a CPU some of bitsandbytes' cannot step at all."""


def can_be_named(kind: type) -> bool:
    """Whether it stands where it says; Lightning makes further classes while a run trains, which no path leads to."""
    return getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind


def subclasses(base: type) -> set[type]:
    return {base}.union(*(subclasses(kind) for kind in base.__subclasses__()))


def of_libraries(base: type) -> list[type]:
    """All classes of a kind that a config may name, by where they are defined."""
    for home in HOMES:
        try:
            module = importlib.import_module(home)
        except ModuleNotFoundError:
            continue
        for inner in pkgutil.iter_modules(getattr(module, "__path__", []), home + "."):
            if home.startswith("lightning") and not inner.name.rpartition(".")[2].startswith("_"):
                importlib.import_module(inner.name)
    own = ("ldm.", "lun.", "test", "support.", *(f"{package}." for package in ONES_TRIED), *ELSEWHERE)
    kinds = {kind for kind in subclasses(base) if can_be_named(kind)}
    found = {kind for kind in kinds if refusal(kind) is None and not definition(kind).startswith(own)}
    return sorted(found, key=definition)


def admitted(base: type) -> Iterator[tuple[str, type | None]]:
    """Each of them with None where it is refused, which has to say why and what instead."""
    for kind in of_libraries(base):
        path = definition(kind)
        try:
            find_target(path)
        except Fault as fault:
            if "<locals>" in path:
                continue
            assert fault.id in ("CFG08", "DEP01"), fault
            assert fault.why and fault.fix, fault
            yield path, None
        else:
            yield path, kind


def tell(what: str, tried: list[str], refused: list[str]) -> None:
    print(f"\n{what}: {len(tried)} built and stepped, {len(refused)} refused by id")
    assert tried


class Model(TrainedModel):
    def __init__(self, target: str) -> None:
        rules = {"target": "ldm.training.rules.Rules", "params": {"rules": RULES}} if "Joined" in target else None
        recipe = {"target": target, "params": PARAMS.get(target, {})}
        super().__init__(optimizer_config=recipe, training_config=rules, use_ema=False)
        self.learning_rate = 1e-2
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Flatten(), nn.Linear(8 * 4, 2))
        self.settle_training()

    def begun(self) -> Optimizer:
        """Its optimizer, ready to step."""
        optimizer: Optimizer = self.configure_optimizers()["optimizer"]
        getattr(optimizer, "train", bool)()
        return optimizer

    def learn(self, optimizer: Optimizer, steps: range) -> None:
        for step in steps:
            torch.manual_seed(step)
            optimizer.zero_grad()
            self.net(torch.randn(2, 3, 4, 4)).square().mean().backward()
            optimizer.step()


def step_and_store(path: str) -> None:
    """Nine steps that move every weight and stay finite, some after a slow start; stored after five, the same ones."""
    torch.manual_seed(0)
    model = Model(path)
    before, optimizer, kept = deepcopy(model.state_dict()), model.begun(), io.BytesIO()
    model.learn(optimizer, range(5))
    torch.save((model.state_dict(), optimizer.state_dict()), kept)
    model.learn(optimizer, range(5, 9))
    after = model.state_dict()
    assert all(weight.isfinite().all() and not torch.equal(weight, before[name]) for name, weight in after.items())
    kept.seek(0)
    weights, states = torch.load(kept, weights_only=True)
    again = Model(path)
    again.load_state_dict(weights)
    resumed = again.begun()
    resumed.load_state_dict(states)
    again.learn(resumed, range(5, 9))
    assert all(torch.equal(weight, after[name]) for name, weight in again.state_dict().items()), "resumed, it differs"


def test_of_a_library_of_many_only_what_was_tried_can_be_named() -> None:
    with pytest.raises(Fault, match="nobody has tried") as told:
        find_target("pytorch_optimizer.SAM")
    assert "pytorch_optimizer.CAME" in told.value.fix and "--allow pytorch_optimizer" in told.value.fix


def test_every_optimizer_steps_is_stored_and_goes_on_to_the_bit() -> None:
    tried, refused, failed = [], [], {}
    for path, kind in [*admitted(Optimizer), *((path, find_target(path)) for path in MORE)]:
        if kind is None:
            refused.append(path)
            continue
        try:
            step_and_store(path)
            tried.append(path)
        except Exception as error:  # all of them are told at once
            failed[path] = repr(error)
    assert failed == {}
    tell("optimizers", tried, refused)


def test_every_schedule_gives_a_factor_for_each_step() -> None:
    tried, refused, failed = [], [], {}
    ours = [kind for _, kind in inspect.getmembers(lr_scheduler, inspect.isclass) if kind.__name__.startswith("Warmup")]
    for path, kind in [*admitted(LRScheduler), *((definition(kind), kind) for kind in ours)]:
        if kind is None or kind.__name__ == "ReduceLROnPlateau":  # the slot refuses it
            refused.append(path)
            continue
        try:
            recipe = {"target": path, "params": STEP_SIZE.get(kind.__name__, {})}
            factors = [factors_of(recipe, [0.1, 0.01])(step) for step in range(6)]
            assert all(math.isfinite(factor) and factor >= 0 for both in factors for factor in both)
            tried.append(path)
        except Exception as error:  # all of them are told at once
            failed[path] = repr(error)
    assert failed == {}
    tell("schedules", tried, refused)


@pytest.mark.parametrize("base", [Callback, Logger, Strategy], ids=lambda base: base.__name__)
def test_callbacks_loggers_and_strategies_that_are_not_refused_are_those_that_whole_runs_try(base: type) -> None:
    tried = [path for path, kind in admitted(base) if kind is not None]
    refused = [path for path, kind in admitted(base) if kind is None]
    assert {path.rpartition(".")[2] for path in tried} <= set(TRIED[base.__name__])
    tell(base.__name__, tried, refused)


def test_every_name_of_a_strategy_is_ours_or_refused() -> None:
    tried, refused = [], []
    for name in StrategyRegistry.available_strategies():
        if name.startswith("deepspeed"):  # a recipe by then
            continue
        try:
            found = strategy_of(name)
            assert name in NAMES or found == name == "single_device"
            tried.append(name)
        except Fault as fault:
            assert (fault.id, bool(fault.fix)) == ("CFG08", True)
            refused.append(name)
    tell("strategies by name", tried, refused)


def test_what_is_refused_or_needs_a_package_still_exists() -> None:
    """But for classes that only older or newer versions of Lightning have."""
    kinds = [*of_libraries(Optimizer), *of_libraries(LRScheduler), *of_libraries(Callback)]
    kinds += [*of_libraries(Logger), *of_libraries(Strategy), Optimizer, LRScheduler, Callback]
    gone = {one for one in {*UNFIT, *NEEDS} - {definition(kind) for kind in kinds} if not one.startswith("lun.")}
    assert gone <= {"lightning.pytorch.loggers.neptune.NeptuneLogger"}


@pytest.mark.parametrize("path", sorted(INSIDES))
def test_what_a_run_makes_by_itself_is_refused_with_what_to_write(path: str) -> None:
    with pytest.raises(Fault, match="CFG08") as refused:
        find_target(path, declared)
    assert refused.value.why and refused.value.fix


def test_a_private_class_of_ours_is_refused() -> None:
    with pytest.raises(Fault, match="CFG08"):
        find_target("lun.data.loader._Delivery", declared)


def test_a_logger_whose_package_is_absent_is_told_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find: Callable[..., Any] = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "wandb" else find(name, *rest))
    with pytest.raises(Fault, match="DEP01") as refused:
        find_target("lightning.pytorch.loggers.WandbLogger")
    assert "wandb" in refused.value.fix and "pip install" in refused.value.fix
