"""The length of a run in hours, from runs that were."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lun.plan.step_time import EarlierPace, duration, measured_before

CONFIG = {
    "model": {"target": "a.Model", "params": {"unet_config": {"target": "a.UNet"}, "monitor": "val/loss"}},
    "data": {"params": {"batch_size": 4, "train": {"params": {"size": 512, "data_root": "there"}}}},
    "lightning": {"trainer": {"precision": "32-true", "max_steps": 10}},
}


def past_run(logs: Path, name: str, config: dict[str, Any], seconds: float = 0.5) -> None:
    (logs / name / "configs").mkdir(parents=True)
    (logs / name / "configs" / "resolved.yaml").write_text(yaml.safe_dump(config))
    lines = [json.dumps({"step": step, "time": 100 + seconds * step, "train/loss": 1.0}) for step in (10, 20, 30)]
    (logs / name / "metrics.jsonl").write_text("\n".join(lines) + "\n")


def changed(path: str, value: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(CONFIG))
    *folders, last = path.split(".")
    inner = copy
    for name in folders:
        inner = inner[name]
    inner[last] = value
    return copy


def test_the_newest_run_of_such_steps_tells(tmp_path: Path) -> None:
    past_run(tmp_path, "2026-01-01_a", CONFIG, 0.1)
    past_run(tmp_path, "2026-01-02_b", CONFIG, 0.5)
    past_run(tmp_path, "2026-01-03_c", changed("data.params.batch_size", 8), 0.9)
    assert measured_before(CONFIG, tmp_path) == EarlierPace(pytest.approx(0.5), "2026-01-02_b")


@pytest.mark.parametrize(
    ("path", "value", "same"),
    [
        ("model.params.unet_config.target", "a.Other", False),
        ("data.params.train.params.size", 768, False),
        ("lightning.trainer.precision", "bf16-mixed", False),
        ("lightning.trainer.max_steps", 5000, True),
        ("data.params.train.params.data_root", "elsewhere", True),
        ("model.params.monitor", None, True),
    ],
)
def test_only_what_a_step_computes_has_to_be_the_same(tmp_path: Path, path: str, value: Any, same: bool) -> None:
    past_run(tmp_path, "run", changed(path, value))
    assert (measured_before(CONFIG, tmp_path) is not None) == same


def test_without_a_run_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "metrics.jsonl").write_text("{")
    assert measured_before(CONFIG, tmp_path) is None and measured_before(CONFIG, tmp_path / "none") is None


def test_time_is_told_in_its_own_unit() -> None:
    assert [duration(s) for s in (40, 720, 12_600, 190_000)] == ["40 s", "12 min", "3.5 h", "2.2 days"]
    assert EarlierPace(0.5, "a").describe(1440) == "12 min at 0.5 s a step, as a took, saves and samples included"
    assert EarlierPace(0.5, "a").describe(-1).startswith("0.5 s a step")
