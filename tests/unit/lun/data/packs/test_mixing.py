"""What the report of a packed set says of its mixing."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lun.data.local import Local
from lun.data.packed import PackedSet
from lun.data.packs.destination import FolderDestination
from lun.data.packs.mixing import ShardMixing, intraclass
from lun.data.packs.packing import Packing, PackSettings, ShardOrder
from lun.inspect.command import run


def packed(tmp_path: Path, order: ShardOrder) -> PackedSet:
    """Forty pictures whose scores rise with their names, in shards of five."""
    if not (tmp_path / "loose").exists():
        (tmp_path / "loose").mkdir()
        rows = []
        for number in range(40):
            Image.new("RGB", (16 + number, 16)).save(tmp_path / f"loose/{number:02}.png")
            rows.append({"path": f"{number:02}.png", "text": "a", "tags": ["b"] * (number % 3), "score": number})
        (tmp_path / "loose/rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Packing(
        Local(str(tmp_path / "loose"), layout="jsonl"), FolderDestination(tmp_path / order), PackSettings(8000, order)
    ).run()
    return PackedSet(str(tmp_path / order), size=8)


def test_a_set_in_the_order_of_its_scores_is_told_from_one_that_was_mixed(tmp_path: Path) -> None:
    given, mixed = (packed(tmp_path, order).mixing() for order in ("given", "hash"))
    assert len(packed(tmp_path, "given").shard_lengths()) >= 5
    assert given.rho["score"] > 0.9 > 0.5 > mixed.rho["score"]
    assert given.rho["aspect"] > 0.9 and given.window(32) == given.shards


@pytest.mark.parametrize("rho", [0.0, 0.2, 1.0])
def test_the_estimate_is_the_share_that_was_put_between_the_groups(rho: float) -> None:
    rng = np.random.default_rng(0)
    groups = [rng.normal(0, rho**0.5) + rng.normal(0, (1 - rho) ** 0.5, 50) for _ in range(300)]
    assert intraclass(groups) == pytest.approx(rho, abs=0.05)


def test_the_window_grows_with_batch_and_rho_up_to_all_shards() -> None:
    assert ShardMixing({"score": 0.0}, 100).window(256) == 1
    assert ShardMixing({"score": 0.01}, 100).window(33) == 7
    assert ShardMixing({"score": 1.0}, 100).window(256) == 100
    assert intraclass([np.ones(3)]) is None and intraclass([np.ones(3), np.ones(3)]) is None


def test_the_report_of_a_packed_set_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed(tmp_path, "given")
    config = tmp_path / "set.yaml"
    params = f"{{data_root: {tmp_path / 'given'}, size: 8, window: null}}"  # all shards are one window
    config.write_text(f"data: {{params: {{train: {{target: lun.data.packed.PackedSet, params: {params}}}}}}}")
    assert run(["--base", str(config), "-o", str(tmp_path / "report")]) == 0
    said = capsys.readouterr().out
    assert "mixing" in said and "score 0.9" in said and "window: " in said and " now" not in said
    assert json.loads((tmp_path / "report/report.json").read_text())["mixing"]["score"] > 0.9
