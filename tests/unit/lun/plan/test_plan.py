"""The plan in a few lines."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from support.models import tiny_config
from support.runs import TINY
from support.sd3 import TINY as MMDIT
from torch import nn

from ldm.adapters import Int8
from ldm.errors import Fault
from ldm.models.model_parts import PartSize
from ldm.training.groups import Group
from ldm.training.quantised import quantise
from lun.cli.arguments import Arguments
from lun.plan.fixed_memory import GIB, fixed_memory, state_bytes
from lun.plan.plan import Amounts, Plan, describe_device, describe_groups, describe_optimizer, describe_parts
from lun.run.settings import look_at_settings, read_settings
from lun.strategies.precision import policy_of

AMOUNTS = Amounts(n=168, n_validation=24, batch_size=16, accumulate=2, devices=1, max_steps=900)
FROZEN_HALF = {"target": "lun.strategies.precision.Bf16Mixed", "params": {"frozen_half": True}}
PARTS = [PartSize("UNet", 2_491_172, 2_491_172), PartSize("first stage", 954_567, 0)]


def test_amounts_are_told_in_numbers() -> None:
    assert AMOUNTS.describe_data() == "168 images, 24 for validation"
    assert AMOUNTS.describe_steps() == (
        "900 steps = 171.4 epochs; batch 16 x accumulate 2 x devices 1 = 32 images a step, 5.2 steps an epoch"
    )
    both = replace(AMOUNTS, first_end="max_steps 900, before max_epochs 200")
    assert both.describe_steps().startswith("900 steps (max_steps 900, before max_epochs 200) = ")
    assert replace(AMOUNTS, max_steps=-1).describe_steps().endswith("until the time limit")
    assert describe_parts(PARTS) == "UNet 2.49 M trained · first stage 0.95 M frozen"


def test_the_plan_says_what_a_run_computes_with() -> None:
    settings = read_settings(Arguments(base=(str(TINY),), data_root=("pictures",)), None)
    lines = dict(line.split(maxsplit=1) for line in Plan(settings, 2, amounts=AMOUNTS).lines())
    assert list(lines) == ["config", "data", "model", "device", "optim", "trains", "memory", "steps", "rate"]
    assert lines["config"].endswith("tiny.yaml < command line (2 settings)")
    assert lines["data"] == "pictures: 168 images, 24 for validation"
    assert lines["rate"] == "1.00e-03, as written"


def test_the_plan_of_settings_alone_says_what_is_not_known_yet() -> None:
    settings, (fault,) = look_at_settings(Arguments(base=(str(TINY),)), None)
    assert fault.id == "CFG07"
    lines = dict(line.split(maxsplit=1) for line in Plan(settings, 0).lines())
    assert lines["data"] == "none named: not known yet" and lines["steps"] == "not known yet"
    assert lines["model"].startswith("LatentDiffusion: UNet 0.06 M trained") and "rate" not in lines


@pytest.mark.parametrize(
    ("trainer", "told"),
    [
        ({"accelerator": "cpu"}, "1 x cpu, 32-true"),
        ({"accelerator": "cpu", "precision": "bf16"}, "1 x cpu, bf16-mixed"),
        (
            {
                "accelerator": "cpu",
                "precision": {"target": "lun.strategies.precision.Bf16Mixed", "params": {"frozen_half": True}},
            },
            "1 x cpu, bf16-mixed, frozen parts in half precision",
        ),
        ({"accelerator": "cpu", "devices": 2, "strategy": "ddp"}, "2 x cpu, 32-true, strategy ddp"),
    ],
)
def test_the_device_is_told_with_its_precision(trainer: dict[str, Any], told: str) -> None:
    assert describe_device(trainer, None) == told


def test_the_optimizer_is_told_with_its_settings() -> None:
    recipe = {"target": "torch.optim.AdamW", "params": {"betas": [0.9, 0.99], "fused": True}}
    assert describe_optimizer(recipe) == "torch.optim.AdamW, betas [0.9, 0.99], fused True"


def test_the_plan_says_where_the_optimizer_is_fused_without_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read_settings(Arguments(base=(str(TINY),), data_root=(".",)), None)
    told = [next(line for line in Plan(settings, 0).lines() if line.startswith("optim"))]
    monkeypatch.setattr("lun.plan.plan.device_of", lambda trainer: "mps")
    told += [next(line for line in Plan(settings, 0).lines() if line.startswith("optim"))]
    assert not told[1].endswith(", fused") and told[0] == told[1] + ", fused"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("torch.optim.AdamW", 8),
        ("torch.optim.SGD", 0),
        ("torch.optim.Adafactor", None),
        ("bitsandbytes.optim.AdamW8bit", None),
    ],
)
def test_states_are_measured_or_said_to_be_unknown(target: str, expected: float | None) -> None:
    assert state_bytes({"target": target}) == expected


@pytest.mark.parametrize(
    "precision", ["32-true", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bf16-mixed", "bf16-true"))]
)
def test_memory_is_that_of_the_forecast(precision: str) -> None:
    """The arithmetic against a step on tensors without memory, less buffers and what stays in full precision."""
    from lun.memory.forecast import forecast

    optimizer = {"target": "torch.optim.AdamW"}
    trainer = {"precision": precision}
    model = tiny_config(optimizer_config=optimizer)
    settings = read_settings(Arguments(base=(str(TINY),), data_root=(".",)), None)
    parts = Plan(settings, 0).training_plan().parts
    found = forecast({"model": model, "data": settings.config["data"], "lightning": {"trainer": trainer}})
    told = fixed_memory(parts, optimizer, trainer)
    for name, size in (("weights", found.weights), ("gradients", found.gradients), ("optimizer", found.optimizer)):
        assert getattr(told, name) == pytest.approx(size, rel=0.05)


def test_adapters_count_as_what_they_are_in_half_precision_too() -> None:
    """They stay in float32 over weights in bfloat16, as do their gradients."""
    settings = read_settings(Arguments(base=(str(TINY),), data_root=(".",)), None)
    rules = {"all": {"match": "unet.*attn*", "kind": {"target": "ldm.adapters.LoRA", "params": {"rank": 2}}}}
    adapted = {"adapter_config": {"target": "ldm.adapters.Adapters", "params": {"rules": rules}}}
    settings.config["model"]["params"] |= adapted | {"cond_stage_trainable": False}
    network, *others = Plan(settings, 0).training_plan().parts
    assert (network.trained, 0) == network.precise > (0, 0) and not any(sum(part.precise) for part in others)
    told = fixed_memory([network], {"target": "torch.optim.SGD"}, {"precision": "bf16-true"})
    frozen = network.parameters - network.trained
    assert (told.weights, told.gradients) == (2 * frozen + 4 * network.trained, 4 * network.trained)


@pytest.mark.parametrize("precision", ["32-true", "bf16-true", "bf16-mixed", FROZEN_HALF], ids=str)
@pytest.mark.parametrize("trains", [True, False])
def test_what_stays_in_full_precision_counts_so_whether_it_trains_or_not(precision: Any, trains: bool) -> None:
    network = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)).requires_grad_(False)
    network[1].requires_grad_(trains).keeps_float32 = True
    told = fixed_memory([PartSize.of("UNet", network)], {"target": "torch.optim.SGD"}, {"precision": precision})
    policy_of(precision).plugin("cpu").convert_module(network)
    assert told.weights == sum(weight.nbytes for weight in network.parameters())


def test_a_quantised_layer_counts_as_what_it_is() -> None:
    network = nn.ModuleList([nn.Linear(128, 64)]).requires_grad_(False)
    vars(network[0])["quantised_as"] = kind = Int8()
    told = fixed_memory([PartSize.of("UNet", network)], {"target": "torch.optim.SGD"}, {"precision": "bf16-true"})
    quantise(network)
    assert told.weights == kind.size(torch.Size((64, 128))) + network[0].bias.nbytes


def test_the_network_is_called_by_its_own_name() -> None:
    settings = read_settings(Arguments(base=(str(TINY),), data_root=(".",)), None)
    params = {**MMDIT, "from_scratch": True}
    settings.config["model"]["params"]["unet_config"] = {"target": "ldm.modules.networks.mmdit.MMDiT", "params": params}
    assert describe_parts(Plan(settings, 0).training_plan().parts).startswith(
        "MMDiT 0.03 M (0.03 M trained) · first stage"
    )


def test_what_is_not_known_is_no_number() -> None:
    told = fixed_memory([PartSize("UNet", GIB // 4, GIB // 4)], {"target": "torch.optim.Adafactor"}, {})
    assert told.describe() == "at least 2.00 GiB stay (weights 1.00 + gradients 1.00 + optimizer: unknown)"


def test_a_fault_of_the_model_does_not_hide_the_rest() -> None:
    settings = read_settings(Arguments(base=(str(TINY),), data_root=(".",)), None)
    settings.config["model"]["params"]["objective"] = {"target": "torch.nn.Identity"}
    with pytest.raises(Fault):
        Plan(settings, 0).training_plan()
    assert any(line.startswith("model    LatentDiffusion: not known yet") for line in Plan(settings, 0).lines())


def test_what_trains_is_a_table_of_parts_and_rates() -> None:
    weights = [nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.zeros(4))]
    groups = [Group("", {}, weights[:1], ["unet.a"]), Group("slow", {"lr": 1e-6}, weights[1:], ["text_encoder.b"])]
    assert describe_groups(groups, 1e-5) == [
        "unet          6 in 1 tensors at 1.0e-05",
        "text_encoder  4 in 1 tensors at 1.0e-06 (slow)",
    ]
