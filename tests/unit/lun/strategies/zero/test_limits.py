"""What is refused under ZeRO, and how DeepSpeed's config files are read."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ldm.errors import Fault
from lun.strategies import deepspeed
from lun.strategies.execution import settle_execution
from lun.strategies.zero.limits import fit_for_offload, read_config, require_elementwise, settle

PARAMETERS = [nn.Parameter(torch.ones(2, 2))]
# As Hugging Face's tools write it.
FILE = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "fp16": {"enabled": "auto", "loss_scale": 0},
    "bf16": {"enabled": False},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto", "overlap_comm": True},
}


class Other(torch.optim.Adam):
    """An optimizer of a user's own."""


def refused(config: Any) -> Fault:
    with pytest.raises(Fault) as fault:
        read_config(config)
    return fault.value


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_optimizers_that_treat_each_element_for_itself_pass(kind: Any) -> None:
    require_elementwise(kind(PARAMETERS, lr=1e-3), allowed=False)


@pytest.mark.parametrize("kind", [torch.optim.Adafactor, Other])
def test_others_are_refused_until_they_are_asked_for(kind: Any) -> None:
    optimizer = kind(PARAMETERS, lr=1e-3)
    with pytest.raises(Fault, match=f"{kind.__name__} is not known to be right") as fault:
        require_elementwise(optimizer, allowed=False)
    assert "zero_allow_untested_optimizer=true" in fault.value.fix
    require_elementwise(optimizer, allowed=True)


def test_an_offloaded_adam_steps_with_torchs_fused_kernel() -> None:
    optimizer = torch.optim.AdamW(PARAMETERS)
    fit_for_offload(optimizer)
    assert [group["fused"] for group in optimizer.param_groups] == [True]


def test_an_optimizer_of_gpus_cannot_be_offloaded() -> None:
    eight_bit = type("AdamW8bit", (torch.optim.AdamW,), {"__module__": "bitsandbytes.optim.adamw"})
    with pytest.raises(Fault, match="bitsandbytes.optim.adamw.AdamW8bit cannot be offloaded"):
        fit_for_offload(eight_bit(PARAMETERS))


def test_a_files_autos_are_what_the_run_settles(tmp_path: Path) -> None:
    path = tmp_path / "zero.json"
    path.write_text(json.dumps(FILE))
    assert read_config(str(path)) == {"zero_optimization": {"stage": 2, "overlap_comm": True}}


def test_accumulation_that_contradicts_the_trainer_is_refused() -> None:
    config = {"gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2}}
    assert settle(config, 4, "32-true") == {"zero_optimization": {"stage": 2}}
    with pytest.raises(Fault, match="gradient_accumulation_steps: 4, but lightning.trainer.accumulate_grad_batches"):
        settle(config, 1, "32-true")


def test_a_precision_that_contradicts_the_trainer_is_refused() -> None:
    config = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}
    assert "bf16" in settle(config, 1, "bf16-true")
    with pytest.raises(Fault, match="bf16: enabled, but lightning.trainer.precision is 16-mixed"):
        settle(config, 1, "16-mixed")


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"optimizer": {"type": "Adam"}}, "has a section optimizer"),
        ({"scheduler": {}}, "has a section scheduler"),
        ({"zero_optimization": {"stage": 0}}, "stage 0"),
        ({}, "stage 0"),
    ],
)
def test_what_a_config_cannot_say_here_is_refused(config: dict[str, Any], what: str) -> None:
    assert what in refused(config).what


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert refused(str(tmp_path / "none.json")).id == "CFG01"
    (tmp_path / "bad.json").write_text("{")
    assert refused(str(tmp_path / "bad.json")).id == "CFG02"


def test_without_deepspeed_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepspeed, "find_spec", lambda name: None)
    with pytest.raises(Fault, match="deepspeed is not installed") as fault:
        settle_execution({"strategy": {"target": "lun.strategies.deepspeed.DeepSpeed"}})
    assert fault.value.id == "DEP01" and "deepspeed" in fault.value.fix


@pytest.fixture
def zero() -> type[deepspeed.DeepSpeed]:
    pytest.importorskip("deepspeed")
    return deepspeed.DeepSpeed


def test_a_config_file_needs_no_size_of_batches_and_says_what_it_replaces(
    zero: type[deepspeed.DeepSpeed], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "deepspeed.json").write_text(json.dumps(FILE))
    with caplog.at_level(logging.INFO):
        strategy = zero(config=f"{tmp_path}/deepspeed.json/", stage=1, offload_optimizer=True)
    assert strategy.config["train_micro_batch_size_per_gpu"] == 1 and strategy.config["zero_optimization"]["stage"] == 2
    assert "beside a DeepSpeed config these are ignored: offload_optimizer, stage" in caplog.text


@pytest.mark.parametrize("given", [{"stage": 7}, {"config": {"zero_optimization": {"stage": 2, "overlap_comm": "x"}}}])
def test_what_zero_does_not_know_is_refused_before_it_starts(
    zero: type[deepspeed.DeepSpeed], given: dict[str, Any]
) -> None:
    with pytest.raises(Fault, match="DeepSpeed cannot be started with (stage: 7|overlap_comm: 'x')") as fault:
        zero(**given)
    assert fault.value.id == "CFG08" and fault.value.why


def test_clipping_by_value_is_refused() -> None:
    pytest.importorskip("deepspeed")
    with pytest.raises(Fault, match="by their norm, not by value"):
        settle_execution(
            {"strategy": {"target": "lun.strategies.deepspeed.DeepSpeed"}, "gradient_clip_algorithm": "value"}
        )
