"""Rules over the names of parameters: what trains, in which group of the optimizer, with which settings."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.models import tiny_model
from torch import nn

from ldm.errors import Fault
from ldm.models.autoencoder import AutoencoderKL
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.models.rehearsal import rehearse
from ldm.training.groups import Decision, decide, named_weights
from ldm.training.rules import Multiple, Rules

RULES = "ldm.training.rules.Rules"
COLOURS: Any = {"in_channels": 3, "out_ch": 3}
NAMES = dict.fromkeys(["unet.norm.bias", "unet.attn.weight", "unet.conv.weight", "text_encoder.norm.bias"], True)


def ruled(rules: dict[str, Any], **params: Any) -> LatentDiffusion:
    recipe = {"target": RULES, "params": {"rules": rules}}
    model = tiny_model(training_config=recipe, scheduler_config=None, **params)
    model.learning_rate = 1e-3
    return model


def decided(trains: dict[str, bool], **rules: Any) -> Decision:
    weights = {name: nn.Parameter(torch.ones(1), requires_grad=each) for name, each in trains.items()}
    return decide(weights, Rules(rules).rules)


def test_for_each_setting_the_first_rule_that_gives_it_holds() -> None:
    found = decided(
        NAMES | {"text_encoder.weight": True},
        no_decay={"match": ["*norm*", "*.bias"], "weight_decay": 0},
        text={"match": "text_encoder.*", "lr": "0.1x", "weight_decay": 0.5},
        rest={"match": "*", "weight_decay": 0.2},
    )
    assert found.settings == {
        "unet.norm.bias": {"weight_decay": 0, "train": True},
        "unet.attn.weight": {"weight_decay": 0.2, "train": True},
        "unet.conv.weight": {"weight_decay": 0.2, "train": True},
        "text_encoder.norm.bias": {"weight_decay": 0, "lr": Multiple(0.1), "train": True},
        "text_encoder.weight": {"weight_decay": 0.5, "lr": Multiple(0.1), "train": True},
    }
    assert found.labels["text_encoder.norm.bias"] == "no_decay + text"


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ({"gone": {"match": "unet.mid.*", "train": False}}, ("matches no parameter", "unet.norm.bias")),
        ({"gone": {"match": "clip.*", "lr": "2x"}}, ("the rule gone", "text_encoder.norm.bias")),
        (
            {"all": {"match": "*", "lr": "2x"}, "late": {"match": "unet.*", "weight_decay": 0, "lr": 1e-5}},
            ("late has no effect with lr: 1e-05", "all before it says lr"),
        ),
        (
            {"freeze": {"match": "unet.*", "train": False}, "rate": {"match": "unet.attn*", "lr": "0.5x"}},
            ("rate has no effect with lr: 0.5x", "none of them trains", "train: true"),
        ),
        (
            {"off": {"match": "*.bias", "train": False}, "on": {"match": "unet.norm.bias", "train": True}},
            ("on has no effect with train: true", "off before it"),
        ),
    ],
    ids=["no name", "another family's name", "shadowed in one setting", "of frozen ones", "shadowed wholly"],
)
def test_a_rule_without_effect_is_refused_by_name(rules: dict[str, Any], named: tuple[str, ...]) -> None:
    with pytest.raises(Fault, match="CFG08") as told:
        decided(NAMES, **rules)
    assert all(part in told.value.render() for part in named)
    assert told.value.where == f"model.params.training_config.params.rules.{list(rules)[-1]}"


@pytest.mark.parametrize(
    "rule",
    [
        "unet.*",
        {"lr": 1e-5},
        {"match": "*"},
        {"match": [], "lr": 1e-5},
        {"match": 3, "lr": 1e-5},
        {"match": "*", "lr": "fast"},
        {"match": "*", "lr": -1.0},
        {"match": "*", "lr": True},
        {"match": "*", "lr": "0x", "weight_decay": 0},
        {"match": "*", "train": "no"},
        {"match": "*", "until": 0},
        {"match": "*", "until": "half"},
        {"match": "*", "until": "100%"},
        {"match": "*", "schedule": "cosine"},
        {"match": "*", "ndim": "2", "lr": 0.1},
        {"match": "*", "ndim": [], "lr": 0.1},
    ],
    ids=str,
)
def test_what_is_no_rule_is_refused_where_it_stands(rule: Any) -> None:
    with pytest.raises(Fault, match="CFG03") as told:
        Rules({"mine": rule})
    assert told.value.where.startswith("model.params.training_config.params.rules.mine")


def test_a_rate_of_0_freezes_and_null_takes_a_rule_away() -> None:
    (rule,) = Rules({"off": {"match": "*", "lr": 0}, "gone": None}).rules
    assert rule.settings == {"train": False}


def test_parameters_are_named_as_in_the_libraries_below_the_word_for_their_network() -> None:
    class Two(nn.Module):
        library_modules = ("first.transformer", "second.transformer")

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (nn.ModuleDict({"transformer": nn.Linear(1, 1, bias=False)}) for _ in range(2))
            self.scale = nn.Parameter(torch.ones(1))

    names = named_weights({"text_encoder": Two(), "unet": nn.Linear(1, 1)})
    own = ["text_encoder.scale", "text_encoder.weight", "text_encoder_2.weight"]
    assert list(names) == [*own, "unet.weight", "unet.bias"]


def test_groups_have_their_settings_and_come_in_the_order_of_their_first_parameters() -> None:
    model = ruled(
        {
            "no_decay": {"match": ["*norm*", "*.bias"], "weight_decay": 0.0},
            "attention": {"match": "unet.*attn2*", "lr": 5e-5},
        }
    )
    model.configure_model()
    optimizer = model.configure_optimizers()["optimizer"]
    settings = [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
    assert settings == [(1e-3, 0.01), (1e-3, 0.0), (5e-5, 0.01), (5e-5, 0.0), (1e-3, 0.01), (1e-3, 0.0)]
    labels = ["", "no_decay", "attention", "no_decay + attention", "text_encoder", "no_decay + text_encoder"]
    assert [group.label for group in model.trained_groups()] == labels
    held = [id(weight) for group in optimizer.param_groups for weight in group["params"]]
    assert sorted(held) == sorted(id(weight) for _, weight in model.trained_parameters())


def test_what_a_rule_freezes_asks_for_no_gradient_and_is_in_no_group() -> None:
    model = ruled({"frozen": {"match": ["unet.up_blocks.*", "text_encoder.embedding*"], "train": False}})
    model.configure_model()
    names = {name for name, weight in model.optimized_weights().items() if not weight.requires_grad}
    frozen = {name for name in names if not name.startswith("first_stage")}
    assert frozen and {name.split(".")[1] for name in frozen} == {"up_blocks", "embedding"}
    count = sum(len(group["params"]) for group in model.configure_optimizers()["optimizer"].param_groups)
    assert count == len(list(model.trained_parameters()))


def test_a_rule_trains_a_part_of_the_text_encoder_in_a_mode_that_can_learn() -> None:
    model = ruled({"norm": {"match": "text_encoder.norm.*", "train": True}}, cond_stage_trainable=False)
    model.configure_model()
    model.train()
    assert model.text_encoder_trains and model.cond_stage_model.training
    trained = {name for name, _ in model.trained_parameters() if name.startswith("cond_stage")}
    assert trained == {"cond_stage_model.norm.weight", "cond_stage_model.norm.bias"}
    assert model.training_plan().parts[2].trained == 16


def test_what_the_model_asks_for_and_a_rule_takes_back_is_refused() -> None:
    model = ruled({"off": {"match": "text_encoder.*", "train": False}})
    with pytest.raises(Fault, match="CFG08") as told:
        rehearse(model, 10, 2)
    assert told.value.where == "model.params.cond_stage_trainable"


def test_the_first_stage_never_trains() -> None:
    with pytest.raises(Fault, match="matches no parameter that can train"):
        rehearse(ruled({"vae": {"match": "first_stage*", "train": True}}), 10, 2)


def test_rules_that_leave_nothing_are_refused() -> None:
    with pytest.raises(Fault, match="freeze everything"):
        rehearse(ruled({"off": {"match": "*", "train": False}}, cond_stage_trainable=False), 10, 2)


def test_a_setting_that_the_optimizer_lacks_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Fault, match="unknown setting weight_decai") as told:
        rehearse(ruled({"mine": {"match": "unet.*", "weight_decai": 0}}), 10, 2)
    assert told.value.fix == "did you mean weight_decay?"


def test_until_ends_the_rate_of_a_group_and_of_no_other() -> None:
    model = ruled({"early": {"match": "text_encoder.*", "until": 3}})
    model.configure_model()
    configured = model.configure_optimizers()
    schedule = configured["lr_scheduler"]["scheduler"]
    assert [[factor(step) for factor in schedule.lr_lambdas] for step in (2, 3)] == [[1.0, 1.0], [1.0, 0.0]]


def test_a_rate_that_ends_without_a_schedule_moves_the_second_optimizer_of_an_autoencoder_too() -> None:
    rules = {"early": {"match": "encoder.*", "until": 3}}
    model = AutoencoderKL(
        {
            "resolution": 8,
            "ch": 32,
            "ch_mult": [1],
            "num_res_blocks": 1,
            "z_channels": 4,
            "out_ch": 3,
            "in_channels": 3,
        },
        embed_dim=4,
        from_scratch=True,
        training_config={"target": RULES, "params": {"rules": rules}},
    )
    model.loss = SimpleNamespace(discriminator=nn.Linear(1, 1))
    model.settle_training()
    optimizers, schedules = model.configure_optimizers()
    factors = [[factor(3) for factor in one["scheduler"].lr_lambdas] for one in schedules]
    assert len(optimizers) == 2 and factors == [[0.0, 1.0], [1.0]]


def test_a_rule_has_a_schedule_of_its_own_or_none_whatever_that_of_the_run() -> None:
    falling = {"target": "ldm.lr_scheduler.WarmupLinear"}
    model = ruled(
        {
            "own": {"match": "text_encoder.*", "schedule": {"target": "torch.optim.lr_scheduler.StepLR"}},
            "flat": {"match": "unet.*.bias", "schedule": None},
        }
    )
    model.training_rules[0].settings["schedule"]["params"] = {"step_size": 2, "gamma": 0.1}
    model.scheduler_config = falling | {"params": {"total_steps": 4}}
    model.configure_model()
    schedule = model.configure_optimizers()["lr_scheduler"]["scheduler"]
    found = [[round(factor(step), 3) for factor in schedule.lr_lambdas] for step in (0, 2, 3)]
    assert found == [[1, 1, 1], [0.5, 1, 0.1], [0.25, 1, 0.1]]
    assert schedule.state_dict()["lr_lambdas"] == [None, None, None]


def test_the_schedule_of_a_rule_gets_the_length_of_the_run() -> None:
    (rule,) = Rules({"own": {"match": "*", "schedule": {"target": "ldm.lr_scheduler.WarmupCosine"}}}).rules
    settled = {"target": "ldm.lr_scheduler.WarmupCosine", "params": {"total_steps": 70}}
    assert rule.with_horizon(70).settings["schedule"] == settled
    with pytest.raises(Fault, match="how long the run is") as told:
        rule.with_horizon(-1)
    assert told.value.where == "model.params.training_config.params.rules.own.schedule"


def test_a_rule_may_pick_parameters_by_their_number_of_axes() -> None:
    weights = {f"unet.{axes}": torch.ones((1,) * axes) for axes in (1, 2, 4)}
    rules = Rules({"wide": {"match": "*", "ndim": [2, 4], "train": True}, "rest": {"match": "*", "train": False}})
    found = decide(weights, rules.rules)
    assert {name: own["train"] for name, own in found.settings.items()} == {
        "unet.1": False,
        "unet.2": True,
        "unet.4": True,
    }
    with pytest.raises(Fault, match="matches no parameter of 3 or 5 axes"):
        decide(weights, Rules({"none": {"match": "*", "ndim": [3, 5], "lr": 0.1}}).rules)


def test_the_plan_says_what_trains_at_which_rate() -> None:
    rules = {
        "no_decay": {"match": "*.bias", "weight_decay": 0.0},
        "text": {"match": "text_encoder.*", "lr": "0.5x", "until": "50%"},
    }
    first, *_, last = ruled(rules).training_plan().groups
    assert first.described(1e-4).endswith("tensors at 1.0e-04")
    assert last.described(1e-4).endswith("tensors at 5.0e-05, weight_decay 0.0, until 50% (no_decay + text)")
    assert last.described(None).startswith("8 in 1 tensors at 0.5 x the rate")
