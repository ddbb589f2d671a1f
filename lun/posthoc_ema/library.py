"""The snapshots of a run: which there are, which belong together, and whether their base is still there."""

from dataclasses import dataclass
from pathlib import Path

from ldm.ema.posthoc import PowerProfile
from ldm.errors import Fault
from ldm.files.digest import sha256
from ldm.files.ema_snapshot import Snapshot, TensorFile
from lun.posthoc_ema.snapshot_files import snapshot_files

BASE = "base.safetensors"


@dataclass(frozen=True)
class Library:
    """The snapshots of one line of a run, by time and width; those of abandoned attempts are left out."""

    folder: Path
    snapshots: tuple[Snapshot, ...]

    @classmethod
    def open(cls, run: str) -> "Library":
        """`run` is a run directory or its folder of snapshots. `Fault` MOD01 if there are none."""
        folder, files = snapshot_files(run)
        snapshots = _of_one_line([Snapshot(file) for file in files])
        return cls(folder, tuple(sorted(snapshots, key=lambda one: (one.about.last_update, one.about.sigma_rel))))

    @property
    def last(self) -> int:
        """The step of the newest snapshot."""
        return max(one.about.last_update for one in self.snapshots)

    @property
    def offset(self) -> int:
        """The step from which the averages count."""
        return self.snapshots[0].about.t_offset

    def until(self, step: int) -> tuple[Snapshot, ...]:
        """Those of `step` and before, which is all that an average at `step` may know. `Fault` CLI05 if none."""
        chosen = tuple(one for one in self.snapshots if one.about.last_update <= step)
        if not chosen:
            first = min(one.about.last_update for one in self.snapshots)
            raise Fault(
                "CLI05", f"there is no snapshot up to step {step}", where="--step", fix=f"--step {first}, or more"
            )
        return chosen

    def base(self) -> TensorFile:
        """The weights before training. `Fault` MOD01 or MOD03 if they are not those of the snapshots."""
        path = self.folder / BASE
        if not path.is_file():
            raise Fault(
                "MOD01",
                f"cannot find {path}, which the snapshots are differences to",
                fix="put the file of the run back beside its snapshots",
            )
        actual, wanted = sha256(path), {one.about.base_sha256 for one in self.snapshots}
        if wanted != {actual}:
            raise Fault(
                "MOD03",
                f"{path} is not the file that the snapshots are differences to",
                why=f"its sha256 begins with {actual[:12]}, theirs with {', '.join(sorted(w[:12] for w in wanted))}",
                fix="put the file of the run back beside its snapshots",
            )
        return TensorFile(path)


def profile_of(snapshot: Snapshot) -> PowerProfile:
    return PowerProfile(snapshot.about.sigma_rel, snapshot.about.time)


def _of_one_line(snapshots: list[Snapshot]) -> list[Snapshot]:
    """Without what an attempt wrote beyond the step from which a later one went on, and without repeats."""
    kept: dict[tuple[str, int], Snapshot] = {}
    limit = float("inf")
    for attempt in sorted({one.about.attempt for one in snapshots}, reverse=True):
        own = [one for one in snapshots if one.about.attempt == attempt]
        for one in own:
            if one.about.last_update <= limit:
                kept.setdefault((one.about.track, one.about.last_update), one)
        limit = min(limit, own[0].about.began)
    offsets = {one.about.t_offset for one in kept.values()}
    return [one for one in kept.values() if one.about.t_offset == max(offsets)]
