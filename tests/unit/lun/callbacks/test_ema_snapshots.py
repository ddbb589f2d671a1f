"""Snapshots over a run: when, under which names, relative to what, and what happens when something is in the way."""

import errno
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ldm.ema.lit_ema import LitEma
from ldm.ema.tracks import Track
from ldm.errors import Fault
from ldm.files.ema_snapshot import Snapshot, TensorFile, write_snapshot
from lun.callbacks import EmaSnapshots, FinalCheckpoint
from lun.callbacks import ema_snapshots as module


@pytest.fixture
def averaging(tiny_module: type) -> Callable[..., Any]:
    """A tiny module with an EMA of widths 0.05 and 0.10, updated every 2 steps."""

    class Averaging(tiny_module):  # type: ignore[misc]
        def __init__(self, widths: tuple[float, ...] = (0.05, 0.10)) -> None:
            super().__init__()
            self.model_ema = LitEma(self, update_every=2, widths=widths)

        def window_completed(self, examples: int) -> None:
            super().window_completed(examples)
            self.model_ema.update(self.position.step)

        def to_disk(self, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {f"disk.{name}": tensor for name, tensor in state.items()}

    return Averaging


def names(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "ema-snapshots").iterdir())


def test_they_come_evenly_at_updates_and_end_with_the_last_one(training, averaging, tmp_path: Path) -> None:
    training(13, EmaSnapshots(count=3), module=averaging()).fit()
    steps = (6, 10)  # at or after 4.33 and 8.67; 13 is no update
    assert names(tmp_path) == [
        "base.safetensors",
        *(f"power-{w}-{s:08d}.safetensors" for w in ("0.05", "0.1") for s in steps),
    ]


def test_base_and_difference_add_up_to_the_average_under_names_on_disk(training, averaging, tmp_path: Path) -> None:
    first = averaging()
    start = first.net.weight.detach().clone()
    training(8, EmaSnapshots(count=2), module=first).fit()
    base = TensorFile(tmp_path / "ema-snapshots/base.safetensors")
    snapshot = Snapshot(tmp_path / "ema-snapshots/power-0.05-00000008.safetensors")
    assert torch.equal(base["disk.net.weight"], start)
    shadow = first.model_ema.tracks()["power-0.05"].shadow
    made = base["disk.net.weight"] + snapshot["disk.net.weight"]
    torch.testing.assert_close(made, shadow.views["net.weight"], rtol=1e-4, atol=1e-6)
    assert (snapshot.about.last_update, snapshot.about.every, snapshot.about.sigma_rel) == (8, 2, 0.05)


def test_a_resume_goes_on_with_base_and_spacing_and_takes_no_name_from_an_earlier_attempt(
    training, averaging, tmp_path: Path
) -> None:
    training(8, EmaSnapshots(count=2), FinalCheckpoint(), module=averaging()).fit()
    base = (tmp_path / "ema-snapshots/base.safetensors").stat().st_mtime_ns
    taken = tmp_path / "ema-snapshots/power-0.1-00000012.safetensors"
    taken.write_bytes((tmp_path / "ema-snapshots/power-0.1-00000008.safetensors").read_bytes())
    before = taken.read_bytes()
    last = tmp_path / "checkpoints/last.ckpt"
    training(13, EmaSnapshots(count=2), FinalCheckpoint(), attempt=2, module=averaging()).fit(last)
    assert "power-0.05-00000012.safetensors" in names(tmp_path)
    assert "power-0.1-00000012-attempt2.safetensors" in names(tmp_path) and taken.read_bytes() == before
    assert (tmp_path / "ema-snapshots/base.safetensors").stat().st_mtime_ns == base


@pytest.mark.parametrize(("harm", "id"), [("gone", "MOD01"), ("other", "MOD03")])
def test_a_resume_without_its_base_is_refused(training, averaging, tmp_path: Path, harm: str, id: str) -> None:
    training(4, EmaSnapshots(count=2), FinalCheckpoint(), module=averaging()).fit()
    base = tmp_path / "ema-snapshots/base.safetensors"
    if harm == "gone":
        base.unlink()
    else:
        base.write_bytes(base.read_bytes()[:-1] + b"\x55")
    with pytest.raises(Fault) as caught:
        training(8, EmaSnapshots(count=2), attempt=2, module=averaging()).fit(tmp_path / "checkpoints/last.ckpt")
    assert caught.value.id == id


def test_a_full_disk_costs_the_snapshot_and_not_the_run(
    training, averaging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "write_snapshot", full)
    run = training(8, EmaSnapshots(count=2), module=averaging()).fit()
    assert run.module.position.step == 8
    assert "warning[DSK01]" in caplog.text and names(tmp_path) == ["base.safetensors"]


def test_an_ema_without_widths_has_nothing_to_write(training, averaging) -> None:
    with pytest.raises(Fault) as caught:
        training(4, EmaSnapshots(), module=averaging(widths=())).fit()
    assert caught.value.id == "CFG08" and "widths" in caught.value.fix


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_killed_while_it_writes_one_leaves_the_others_whole_and_its_rest_is_cleared(
    training, averaging, tmp_path: Path
) -> None:
    training(8, EmaSnapshots(count=2), FinalCheckpoint(), module=averaging()).fit()
    folder = tmp_path / "ema-snapshots"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    killed = folder / "power-0.1-00000010.safetensors"
    snapshot, base = Snapshot(folder / "power-0.1-00000008.safetensors"), TensorFile(folder / "base.safetensors")

    class Deadly(dict[str, torch.Tensor]):
        """Averages that kill whoever asks for them a third time, when a part of the file is written."""

        asked = 0

        def __getitem__(self, name: str) -> torch.Tensor:
            self.asked += 1
            if self.asked > 2 * len(self):
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__getitem__(name)

    average = Deadly({name: base[name] + snapshot[name] for name in snapshot})
    child = os.fork()
    if not child:
        write_snapshot(killed, average, base, snapshot.about)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    left = set(names(tmp_path)) - before.keys()
    assert [name.startswith(f".{killed.name}.tmp-") for name in left] == [True]
    training(9, EmaSnapshots(count=2), attempt=2, module=averaging()).fit(tmp_path / "checkpoints/last.ckpt")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_training_goes_on_while_one_is_written_and_the_next_update_waits(
    training, averaging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped, held, done = threading.Event(), [], []
    trained, hold = averaging.training_step, Track.hold

    def step(self: Any, batch: torch.Tensor, batch_idx: int) -> Any:
        if self.position.step == 4:
            stepped.set()  # the step after the snapshot of step 4 was begun
        return trained(self, batch, batch_idx)

    def slowly(path: Path, *others: Any) -> None:
        assert stepped.wait(20)
        write_snapshot(path, *others)
        done.append(path.name)

    monkeypatch.setattr(averaging, "training_step", step)
    monkeypatch.setattr(module, "write_snapshot", slowly)
    monkeypatch.setattr(Track, "hold", lambda self, job: (held.append(job), hold(self, job)))
    training(8, EmaSnapshots(count=2), module=averaging()).fit()
    assert len(held) == len(done) == 4 and all(job.done() for job in held)
    assert names(tmp_path) == ["base.safetensors", *sorted(done)]
