"""Where the snapshots of a run lie, by their names alone."""

from pathlib import Path

from ldm.errors import Fault

FOLDER = "ema-snapshots"


def snapshot_files(run: str) -> tuple[Path, list[Path]]:
    """The folder of snapshots that `run` is, or has, and the files in it. Raises `Fault` MOD01 if there are none."""
    root = Path(run)
    folder = root / FOLDER if (root / FOLDER).is_dir() else root
    files = sorted(folder.glob("*-????????*.safetensors"))
    if not files:
        raise Fault(
            "MOD01",
            f"{run} has no snapshots of an EMA",
            why=f"no files in {root / FOLDER}",
            fix="train with --base ... configs/options/ema-power.yaml",
        )
    return folder, files
