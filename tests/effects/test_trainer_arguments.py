"""Every argument of `lightning.Trainer` has its effect in one endless epoch, or is refused by name."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from support.described import described

from ldm.errors import Fault
from lun.callbacks import SmoothedProgressBar
from lun.config.check import check
from lun.config.reading.load_layers import Merged
from lun.config.sections import ELSEWHERE
from lun.config.trainer_arguments import trainer_arguments
from lun.config.trainer_values import IDLE
from lun.run.length import settle_length
from lun.run.lightning_trainer import build_trainer
from lun.run.resolved import resolve, window_of
from lun.strategies.execution import require_device, settle_execution

BASE: Mapping[str, Any] = {"accelerator": "cpu", "devices": 1, "max_steps": 80}
OTHER: Mapping[str, Any] = {
    "accelerator": "cuda",
    "strategy": "ddp",
    "devices": 2,
    "num_nodes": 2,
    "precision": "bf16-mixed",
    "max_steps": 7,
    "max_epochs": 1,
    "val_check_interval": 0.5,
    "limit_val_batches": 3,
    "num_sanity_val_steps": 5,
    "log_every_n_steps": 7,
    "enable_progress_bar": False,
    "enable_model_summary": True,
    "accumulate_grad_batches": 3,
    "gradient_clip_val": 0.5,
    "gradient_clip_algorithm": "value",
    "deterministic": True,
    "benchmark": True,
    "inference_mode": False,
    "profiler": "simple",
    "detect_anomaly": True,
    "plugins": [{"target": "lightning.fabric.plugins.environments.LightningEnvironment"}],
    "sync_batchnorm": True,
}
"""A value of each argument that has an effect, other than that of `BASE` or Lightning's default."""
NEEDS: Mapping[str, Mapping[str, Any]] = {"gradient_clip_algorithm": {"gradient_clip_val": 1.0}}
IDLE_VALUES: Mapping[str, Any] = {
    "fast_dev_run": 2,
    "max_time": "00:08:00:00",
    "limit_train_batches": 1,
    "overfit_batches": 0.1,
    "use_distributed_sampler": True,
    "enable_checkpointing": False,
    "enable_autolog_hparams": False,
    "model_registry": "mine",
    "barebones": True,
}
"""A value of each argument without effect; 2 where none is named."""


@pytest.fixture(autouse=True)
def _switches_of_torch() -> Iterator[None]:
    """A Trainer sets switches of the whole process."""
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    yield
    torch.use_deterministic_algorithms(before[0])
    torch.backends.cudnn.benchmark = before[1]


def outcome(trainer: Mapping[str, Any]) -> Any:
    """What is built from these arguments, or the words with which they are refused."""
    try:
        require_device(trainer)
        execution = settle_execution(trainer)
        window = window_of(execution, batch_size=2)
        length = settle_length(trainer, 100, 2 * window.accumulate)
        run = resolve({"model": {}}, execution, window, length, seed=0)
        built = build_trainer(run, True, [SmoothedProgressBar()], [], Path("run"))
    except Fault as fault:
        return str(fault)
    switches = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    return described((built, switches))


def told(trainer: Mapping[str, Any]) -> list[Fault]:
    """What `--check` says of these arguments."""
    found = check(Merged({"lightning": {"trainer": dict(trainer)}}))
    return [fault for fault in found if "section" not in fault.what]


def test_every_argument_is_known_to_have_an_effect_or_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert trainer_arguments() == OTHER.keys() | IDLE.keys() | ELSEWHERE.keys()
    assert not OTHER.keys() & IDLE.keys()
    with capsys.disabled():
        print(f"\n{len(trainer_arguments())} arguments of lightning.Trainer tried, {len(IDLE)} of them refused")


@pytest.mark.parametrize("name", OTHER)
def test_another_value_builds_another_trainer(name: str) -> None:
    beside = {**BASE, **NEEDS.get(name, {})}
    assert told({**beside, name: OTHER[name]}) == []
    plain = outcome(beside)
    assert plain == outcome(beside), "the comparison itself is not repeatable"
    assert outcome({**beside, name: OTHER[name]}) != plain


@pytest.mark.parametrize("name", IDLE)
def test_a_value_without_effect_is_refused_by_name(name: str) -> None:
    (fault,) = told({**BASE, name: IDLE_VALUES.get(name, 2)})
    assert fault.id == "CFG05"
    assert f"lightning.trainer.{name}" in fault.what
    assert fault.why and fault.fix


@pytest.mark.parametrize("name", IDLE)
def test_asking_for_what_is_so_anyway_is_no_fault(name: str) -> None:
    for value in IDLE[name].harmless:
        assert [fault for fault in told({**BASE, name: value}) if fault.id == "CFG05"] == [], value


def test_how_to_clip_is_refused_where_nothing_is_clipped() -> None:
    (fault,) = told({**BASE, "gradient_clip_algorithm": "value"})
    assert "gradient_clip_val" in fault.why


@pytest.mark.parametrize("interval", ["00:01:00:00", {"minutes": 5}])
def test_a_validation_interval_in_time_is_refused(interval: Any) -> None:
    (fault,) = told({**BASE, "val_check_interval": interval})
    assert fault.what.startswith("lightning.trainer.val_check_interval: expected int or float or null")


def test_the_page_names_every_refused_argument(repo_root: Path) -> None:
    page = (repo_root / "configs" / "README.md").read_text("utf-8")
    assert [name for name in IDLE if f"`{name}" not in page] == []
