"""All numbers of `configs/options/numbers.yaml` in one run: they arrive, and change no bit of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.equality import differences, final_state
from support.runs import newest_run
from support.warm import VALIDATION

Lun = Callable[..., int]
ROOT = Path(__file__).resolve().parents[2]
ALL = str(ROOT / "configs/options/numbers.yaml")


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture
def words(pictures: Path) -> list[str]:
    held = VALIDATION.replace("???", str(pictures))
    every = ["lightning.trainer.max_steps=6", "lightning.trainer.log_every_n_steps=2"]
    return [held, *every, "lightning.trainer.val_check_interval=3", "data.params.train.params.flip_p=0.0"]


def test_with_all_numbers_on_weights_and_averages_are_those_of_a_run_without(
    lun: Lun, tmp_path: Path, words: list[str]
) -> None:
    assert lun(*words, "-t", "-n", "off") == 0
    off = newest_run(tmp_path / "logs")
    assert lun("--base", ALL, *words, "-t", "-n", "on") == 0
    on = newest_run(tmp_path / "logs")
    assert differences(final_state(off), final_state(on)) == []
    rows = rows_of(on)
    names = {name for row in rows for name in row}
    for phase in ("train/loss_by_{}/", "val/loss_by_{}/", "val/loss_by_{}_ema/", "val/loss_by_{}_rel/"):
        for kind in ("snr", "size", "tag"):
            assert any(name.startswith(phase.format(kind)) for name in names), phase.format(kind)
    require_means(rows)
    last = [row for row in rows if "grad_norm/unet.mid_block" in row][-1]
    assert last["step"] == 6 and last["train/grad_norm_max"] >= last["train/grad_norm"] > 0
    assert any(0 < row.get("update_ratio/text_encoder.embedding", 0) < 0.1 for row in rows)


def require_means(rows: list[dict[str, Any]]) -> None:
    """One size alone: its loss in a log's window, here of all pictures, is that of validation as a whole."""
    whole = {row["step"]: row["val/loss_simple"] for row in rows if "val/loss_simple" in row}
    sized = {row["step"]: row["val/loss_by_size/8x8"] for row in rows if "val/loss_by_size/8x8" in row}
    assert sized == pytest.approx(whole, rel=1e-5) and len(whole) == 2
    assert [row["step"] for row in rows if "train/loss_by_size/8x8" in row] == [2, 4, 6]
