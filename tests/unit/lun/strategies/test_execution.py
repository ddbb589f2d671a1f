"""Which strategy a run trains under, in which precision, and on how many ranks."""

from typing import Any

import lightning.pytorch
import pytest

from ldm.errors import Fault
from lun.strategies import execution
from lun.strategies.execution import settle_execution, settle_execution_anywhere

SEVERAL: tuple[dict[str, Any], ...] = ({"devices": 2}, {"devices": "2"}, {"num_nodes": 2})


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("asked", "ranks"),
    [
        ({}, 1),
        ({"devices": 1}, 1),
        ({"devices": "1"}, 1),
        ({"devices": "auto"}, 1),
        ({"devices": 2}, 2),
        ({"devices": "3"}, 3),
        ({"devices": 2, "strategy": "ddp"}, 2),
        ({"devices": 2, "num_nodes": 4}, 8),
        ({"devices": "auto", "num_nodes": 2}, 2),
    ],
)
def test_ranks_are_counted_for_every_spelling_of_devices_and_nodes(asked: dict[str, Any], ranks: int) -> None:
    assert settle_execution({"accelerator": "cpu", **asked}).ranks.count == ranks


def test_several_devices_train_under_ddp_unless_another_strategy_is_named() -> None:
    ddp = {"target": "lun.strategies.ddp.DDP"}
    assert settle_execution({"accelerator": "cpu", "devices": 2}).strategy == ddp
    assert settle_execution({"accelerator": "cpu", "devices": 1}).strategy == "auto"
    assert settle_execution({"accelerator": "cpu", "strategy": "ddp"}).strategy == ddp
    assert settle_execution({"accelerator": "cpu", "strategy": "single_device"}).strategy == "single_device"


@pytest.mark.parametrize("settle", [settle_execution, settle_execution_anywhere])
@pytest.mark.parametrize("several", SEVERAL)
def test_several_devices_without_a_strategy_are_refused_what_ddp_cannot(settle: Any, several: dict[str, Any]) -> None:
    with pytest.raises(Fault, match="precision bf16-master cannot be used with strategy ddp"):
        settle({"accelerator": "cpu", "precision": "bf16-master", **several})


@pytest.mark.parametrize("precision", ["32", "bf16-mixed", "bf16-true"])
@pytest.mark.parametrize("asked", [{}, {"devices": 1}, {"strategy": "ddp"}, {"strategy": "fsdp"}, *SEVERAL])
def test_a_check_knows_the_strategy_and_the_precision_of_the_run(asked: dict[str, Any], precision: str) -> None:
    settings = {"accelerator": "cpu", "precision": precision, **asked}
    here, anywhere = settle_execution(settings), settle_execution_anywhere(settings)
    elsewhere = settle_execution_anywhere({**settings, "accelerator": "gpu"})
    assert here.kind == anywhere.kind == elsewhere.kind
    assert here.precision.name == anywhere.precision.name == elsewhere.precision.name


@pytest.mark.parametrize(
    ("devices", "kind"), [([0, 1], "ddp"), ("0,1", "ddp"), ([0], "one device"), ("0,", "one device")]
)
def test_a_check_counts_the_gpus_that_are_named_one_by_one(devices: Any, kind: str) -> None:
    assert settle_execution_anywhere({"accelerator": "gpu", "devices": devices}).kind == kind


@pytest.mark.parametrize("settle", [settle_execution, settle_execution_anywhere])
def test_lightning_is_asked_once(settle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[dict[str, Any]] = []
    trainer = lightning.pytorch.Trainer
    monkeypatch.setattr(
        lightning.pytorch, "Trainer", lambda **arguments: built.append(arguments) or trainer(**arguments)
    )
    settle({"accelerator": "cpu", "devices": 2, "precision": "bf16-mixed", "profiler": None})
    assert len(built) == 1


ONE: dict[str, Any] = {"accelerator": "cpu", "devices": 1, "precision": "bf16-mixed", "accumulate_grad_batches": 2}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"devices": "1", "num_nodes": 1, "strategy": "auto"},
        {"gradient_clip_val": 1, "gradient_clip_algorithm": "value", "num_sanity_val_steps": -1},
        {"log_every_n_steps": 0, "max_steps": 5, "val_check_interval": 3, "check_val_every_n_epoch": None},
    ],
)
def test_one_device_is_settled_as_lightning_has_it_without_asking(
    more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = settle_execution({**ONE, **more})
    monkeypatch.setattr(execution, "_is_one_device", lambda asked: False)
    assert settle_execution({**ONE, **more}) == settled
    monkeypatch.undo()
    monkeypatch.setattr(execution, "_probe", lambda arguments: pytest.fail("Lightning was asked"))
    settle_execution({**ONE, **more})


@pytest.mark.parametrize(
    "more",
    [
        {"devices": 2}, {"devices": True}, {"devices": [0]}, {"num_nodes": 2}, {"strategy": "ddp"},
        {"limit_val_batches": 2.5}, {"gradient_clip_val": "1"}, {"gradient_clip_algorithm": "nrm"},
        {"accumulate_grad_batches": 1.5}, {"deterministic": True}, {"profiler": "simple"},
    ],
)  # fmt: skip
def test_of_everything_else_lightning_is_asked(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_probe", lambda arguments: pytest.skip("asked"))
    with pytest.raises(pytest.skip.Exception):
        settle_execution({**ONE, **more})


def test_a_launcher_knows_more_than_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "1")
    test_of_everything_else_lightning_is_asked({}, monkeypatch)


def test_all_that_the_settings_say_wrong_is_told_at_once() -> None:
    wrong = {"accelerator": "cpu", "strategy": "fsdp", "precision": "16-mixed", "gradient_clip_val": -1.0}
    with pytest.raises(ExceptionGroup) as raised:
        settle_execution(wrong)
    assert [fault.what for fault in raised.value.exceptions if isinstance(fault, Fault)] == [
        "precision 16-mixed cannot be used with strategy fsdp",
        "lightning.trainer.gradient_clip_val cannot be -1.0",
    ]


def test_what_another_machine_may_have_is_no_fault_of_the_settings() -> None:
    settings = {"accelerator": "gpu", "devices": 64, "num_nodes": 8, "precision": "16-mixed"}
    assert settle_execution_anywhere(settings).ranks.count == 1


def test_a_settled_value_builds_its_strategy_and_plugin_anew_each_time() -> None:
    settled = settle_execution({"accelerator": "cpu", "devices": 2, "precision": "bf16-mixed"})
    first, second = settled.trainer_arguments(), settled.trainer_arguments()
    assert type(first["strategy"]) is type(second["strategy"]) and first["strategy"] is not second["strategy"]
    assert first["plugins"][0] is not second["plugins"][0]


@pytest.mark.parametrize(("precision", "said"), [("16-mixed", True), (16, True), ("bf16", False), (None, False)])
def test_float16_on_a_cpu_is_said_to_be_slow(caplog: pytest.LogCaptureFixture, precision: object, said: bool) -> None:
    settle_execution({"accelerator": "cpu", "precision": precision}).warn_if_slow()
    assert ("DEV04" in caplog.text and "precision=32" in caplog.text) is said


def test_rank_zero_needs_a_meeting_place_for_ranks_that_another_launcher_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert settle_execution({"accelerator": "cpu", "devices": 2}).ranks.store is None
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 0}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29501")
    assert settle_execution({"accelerator": "cpu", "devices": 2}).ranks.store == ("10.0.0.1", 29501)
