"""What a run is going to write, and where."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ldm.errors import Fault
from ldm.models.model_parts import PartSize
from lun.callbacks.checkpointing import Checkpoint
from lun.plan.disk_need import DiskNeed, disk_need, existing, require_writable
from lun.strategies.precision import policy_of

PARTS = [PartSize("UNet", 1000, 1000), PartSize("first stage", 100, 0)]


def need(place: Path, **model: Any) -> DiskNeed:
    usual = {"use_ema": True, "adapter_config": None, "optimizer_config": {"target": "torch.optim.AdamW"}}
    savers = [Checkpoint("every", every_n_train_steps=10)]
    return disk_need(SimpleNamespace(**usual | model), PARTS, policy_of(None), savers, 100, place)  # type: ignore[arg-type]


def test_a_checkpoint_holds_weights_average_and_states(tmp_path: Path) -> None:
    whole = need(tmp_path / "not" / "there")
    assert whole.checkpoint == 4 * 1100 + 4 * 1000 + 8 * 1000 and whole.count == 2 and not whole.about
    assert need(tmp_path, use_ema=False).checkpoint == whole.checkpoint - 4000
    assert need(tmp_path, adapter_config={"target": "any"}).checkpoint == whole.checkpoint - 400
    assert need(tmp_path, optimizer_config={"target": "bitsandbytes.optim.AdamW8bit"}).about


def test_too_little_room_is_said() -> None:
    assert DiskNeed(2e9, 3, 10**10).describe("logs") == "checkpoint 2.0 GB, 3 kept = 6.0 GB, of 10.0 GB free in logs"
    assert DiskNeed(4e9, 3, 10**10).describe("logs").endswith(": TOO LITTLE")


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    require_writable(tmp_path / "new" / "logs", "--logdir")
    with pytest.raises(Fault, match="DSK01") as refused:
        require_writable(tmp_path / "file" / "logs", "--logdir")
    assert refused.value.why == f"{tmp_path / 'file'} is no folder"
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(Fault, match="DSK01") as refused:
        require_writable(tmp_path / "new", "data.params.cache.folder")
    assert refused.value.where == "data.params.cache.folder" and str(existing(tmp_path / "new")) in refused.value.why
