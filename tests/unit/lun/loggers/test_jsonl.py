"""One JSON object a line."""

import json
import math

import pytest
import torch
from lightning.pytorch.utilities import rank_zero_only

from lun.loggers import JsonlLogger


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_call_becomes_one_json_object(tmp_path):
    logger = JsonlLogger(str(tmp_path))
    logger.log_metrics({"train/loss": 0.5}, 1)
    logger.log_metrics({"val/loss": torch.tensor(0.25), "epoch": 3}, 2)
    first, second = lines(tmp_path / "metrics.jsonl")
    assert first["step"] == 1 and first["train/loss"] == 0.5 and first["time"] > 1.6e9
    assert second["val/loss"] == 0.25 and second["epoch"] == 3


def test_numbers_that_json_does_not_have_become_strings(tmp_path):
    JsonlLogger(str(tmp_path)).log_metrics({"a": math.nan, "b": math.inf, "c": torch.tensor(-math.inf)}, 0)
    (line,) = lines(tmp_path / "metrics.jsonl")
    assert (line["a"], line["b"], line["c"]) == ("nan", "inf", "-inf")


def test_a_resumed_run_appends(tmp_path):
    for step in (1, 2):
        JsonlLogger(str(tmp_path)).log_metrics({"a": step}, step)
    assert [line["step"] for line in lines(tmp_path / "metrics.jsonl")] == [1, 2]


@pytest.mark.parametrize("torn", ['{"step": 1, "a": 1}\n{"step": 2, "a', '{"st'])
def test_a_line_torn_by_a_crash_is_cut_off_at_the_next_start(tmp_path, torn):
    path = tmp_path / "metrics.jsonl"
    path.write_text(torn)
    JsonlLogger(str(tmp_path)).log_metrics({"a": 3}, 3)
    assert [line["step"] for line in lines(path)] == [1, 3][-len(lines(path)) :]
    assert len(lines(path)) == torn.count("\n") + 1


def test_hyperparameters_are_ignored(tmp_path):
    JsonlLogger(str(tmp_path)).log_hyperparams({"lr": 1})
    assert list(tmp_path.iterdir()) == []


def test_other_ranks_write_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    JsonlLogger(str(tmp_path)).log_metrics({"a": 1}, 0)
    assert list(tmp_path.iterdir()) == []


def test_folder_and_name_can_be_chosen(tmp_path):
    logger = JsonlLogger(str(tmp_path / "deep"), name="numbers")
    logger.log_metrics({"a": 1}, 0)
    assert (tmp_path / "deep" / "numbers.jsonl").exists() and logger.save_dir == str(tmp_path / "deep")
