"""Snapshots of averaged weights that came to harm: refused by name, never part of a sum."""

import contextlib
import io
from pathlib import Path

import pytest
from support.damage import DAMAGES, flips
from support.runs import TINY, make_pictures, newest_run

from ldm.errors import Fault
from ldm.files.ema_snapshot import Snapshot
from lun.posthoc_ema.command import run as posthoc_ema
from lun.trainer import run

SETTINGS = [
    "model.params.ema_config={target: ldm.modules.ema.LitEma, params: {widths: [0.05, 0.1], update_every: 2}}",
    "lightning.callbacks.ema_snapshots={target: lun.callbacks.ema_snapshots.EmaSnapshots, params: {count: 4}}",
    "lightning.trainer.max_steps=16",
]


@pytest.fixture
def snapshots(tmp_path: Path) -> list[Path]:
    words = ["--base", str(TINY), "--logdir", str(tmp_path / "logs"), "--data_root", str(make_pictures(tmp_path, 3))]
    assert run([*words, *SETTINGS, "-t"]) == 0
    return sorted((newest_run(tmp_path / "logs") / "ema-snapshots").glob("*-0*.safetensors"))


def reconstructed(snapshot: Path, out: Path) -> tuple[int, str]:
    """Exit code of the command on the run of a snapshot, and what it says."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        code = posthoc_ema(["reconstruct", str(snapshot.parent), "--width", "0.07", "--force", "-o", str(out)])
    return code, said.getvalue()


def test_a_damaged_snapshot_is_refused_by_name(snapshots: list[Path], tmp_path: Path) -> None:
    code, said = reconstructed(snapshots[0], tmp_path / "whole.safetensors")
    assert code == 0, said
    whole = snapshots[0].read_bytes()
    for name, damage in DAMAGES.items():
        damage(snapshots[0])
        code, said = reconstructed(snapshots[0], tmp_path / f"{name}.safetensors")
        assert code == 4, said
        assert said.count("error[MOD02]") == 1 and snapshots[0].name in said and "Traceback" not in said
        assert not (tmp_path / f"{name}.safetensors").exists()
        snapshots[0].write_bytes(whole)


def test_any_flipped_bit_of_a_snapshot_is_noticed(snapshots: list[Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy.safetensors"
    about = Snapshot(snapshots[0]).about
    for position in flips(snapshots[0], copy, 60):
        try:
            found = Snapshot(copy)
            found.require_whole()
            assert found.about == about, position
        except Fault as fault:
            assert fault.id == "MOD02"
