"""From a person's own module: an adapter on chosen layers, groups of the optimizer, a metric."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.runs import load, make_pictures, newest_run

ADAPTERS = """
import torch
from torch import nn


class Low(nn.Module):
    def __init__(self, layer, rank, generator):
        super().__init__()
        start = torch.randn(rank, layer.in_features, generator=generator, device="cpu")
        self.down = nn.Parameter(start.to(layer.weight.device))
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank, device=layer.weight.device))

    def forward(self, x):
        return x @ self.down.T @ self.up.T


class Adapters:
    def __init__(self, rank: int):
        self.rank = rank

    def __call__(self, networks, seed):
        generator = torch.Generator().manual_seed(seed)
        for name, layer in list(networks["unet"].named_modules()):
            if name.endswith(("to_q", "to_v")):
                layer.adapter = Low(layer, self.rank, generator)
                layer.register_forward_hook(lambda layer, given, out: out + layer.adapter(given[0]))
"""
RULES = "model.params.training_config={target: ldm.training.rules.Rules, params: {rules: {%s}}}"
FROZEN = "model.params.cond_stage_trainable=false"
LUN = Callable[..., int]


def checkpoint(tmp_path: Path) -> dict[str, Any]:
    return load(newest_run(tmp_path / "logs") / "checkpoints/last.ckpt")


def rows(tmp_path: Path) -> list[dict[str, Any]]:
    lines = (newest_run(tmp_path / "logs") / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_an_adapter_on_chosen_layers_trains_alone_at_a_rate_of_its_own_and_goes_on(lun: LUN, tmp_path: Path) -> None:
    words = ["model.params.adapter_config={target: lun.local.mine.Adapters, params: {rank: 1}}", FROZEN]
    words += [RULES % "up: {match: '*.adapter.up', lr: 16x}", "model.params.scheduler_config.params.total_steps=4"]
    assert lun(ADAPTERS, *words, "-n", "start", "lightning.trainer.max_steps=1", "model.base_learning_rate=0") == 0
    start = checkpoint(tmp_path)["state_dict"]
    assert lun(ADAPTERS, *words, "-n", "straight", "lightning.trainer.max_steps=4") == 0
    straight = checkpoint(tmp_path)
    changed = {name for name, tensor in straight["state_dict"].items() if not torch.equal(tensor, start[name])}
    trained = {name for name in changed if not name.startswith("model_ema.")}
    assert trained and all(".adapter." in name for name in trained)
    assert {name.rpartition(".")[2] for name in trained} == {"up", "down"}
    groups = straight["optimizer_settings"][0]["groups"]
    assert [group["lr"] for group in groups] == pytest.approx([1e-3, 16e-3])
    assert lun(ADAPTERS, *words, "-n", "split") == 0
    assert lun(ADAPTERS, "-r", str(newest_run(tmp_path / "logs")), "lightning.trainer.max_steps=4") == 0
    again = checkpoint(tmp_path)["state_dict"]
    assert all(torch.equal(tensor, again[name]) for name, tensor in straight["state_dict"].items())


METRIC = """
import torch


class Foreseen:
    def __init__(self, quantile: float):
        self.quantile = quantile

    def __call__(self, measured):
        torch.rand(3)  # as careless as a person's own code may be
        assert not torch.is_grad_enabled()
        return measured.x0.flatten(1).quantile(self.quantile, dim=1) + measured.losses.simple
"""


def test_a_metric_is_logged_in_training_and_validation_and_changes_no_weight(lun: LUN, tmp_path: Path) -> None:
    held_back = make_pictures(tmp_path / "held back", 3, seed=1)
    words = [f"data.params.validation={{target: lun.data.local.Local, params: {{data_root: '{held_back}', size: 8}}}}"]
    words += ["lightning.trainer.val_check_interval=2"]
    assert lun(METRIC, *words) == 0
    plain = checkpoint(tmp_path)["state_dict"]
    words += ["model.params.metrics.spread={target: lun.local.mine.Foreseen, params: {quantile: 0.9}}"]
    assert lun(METRIC, *words, "-n", "measured", "model.params.monitor=val/spread_ema") == 0
    measured = checkpoint(tmp_path)["state_dict"]
    assert measured.keys() == plain.keys()
    assert all(torch.equal(tensor, plain[name]) for name, tensor in measured.items())
    told = {name: value for row in rows(tmp_path) for name, value in row.items()}
    for name in ("train/", "val/"):
        assert told[f"{name}spread"] > told[f"{name}loss_simple"]
    assert told["val/spread_ema"] > told["val/loss_simple_ema"]


def test_a_metric_of_another_shape_is_refused_by_name(
    lun: LUN, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = METRIC.replace("quantile(self.quantile, dim=1)", "mean()").replace("measured.losses.simple", "0")
    assert lun(source, "model.params.metrics.mean={target: lun.local.mine.Foreseen, params: {quantile: 0.9}}") == 2
    assert "the metric mean gave () for 2 examples" in capsys.readouterr().err
