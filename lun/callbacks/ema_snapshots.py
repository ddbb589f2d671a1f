"""Snapshots of the power-function averages, from which `python -m lun.posthoc_ema` makes any width after training."""

import logging
import math
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ldm.ema.profiles import PowerDecay
from ldm.ema.tracks import Track
from ldm.errors import Fault
from ldm.files.digest import sha256
from ldm.files.ema_snapshot import About, TensorFile, write_snapshot
from ldm.files.write import write_safetensors
from ldm.lightning_classes import LightningModule, Trainer
from lun.checkpoints.atomic import clean_leftovers
from lun.checkpoints.file_names import check_place
from lun.checkpoints.saving import could_not_save, relative, run_directory
from lun.loop.boundary import AtStepBoundary
from lun.loop.position_callback import follower

log = logging.getLogger(__name__)
LOG_EVERY = 60.0  # seconds

BASE = "base.safetensors"


class EmaSnapshots(AtStepBoundary):
    """Writes all `widths` of the model's EMA `count` times over the run, evenly, at steps at which they are updated.

    `base.safetensors`, the weights at the first step, is written once, since snapshots are differences to it. For the
    UNet of SD 1.5 that is 3.4 GB, and 1.7 GB for each width and snapshot.

    count    snapshots of each width over the whole run; a resume keeps their spacing, also when the run gets longer
    dirpath  below the run directory

    They are written beside training, which waits for them only at the next update of the EMA. A full disk costs the
    snapshot, which is logged, not the run; the others serve without it.
    """

    doing = "saving"

    def __init__(self, count: int = 16, dirpath: str = "ema-snapshots") -> None:
        if count < 2:
            raise Fault("CFG08", f"count: {count} snapshots reconstruct nothing", where="EmaSnapshots", fix="count: 16")
        check_place(dirpath, "", outside=False)  # they are looked for in the run alone
        self.count = count
        self.dirpath = dirpath
        self._spacing: float | None = None
        self._base_sha256: str | None = None
        self._began = 0
        self._jobs: list[Future[None]] = []
        self._unlogged = 0
        self._logged_at = -math.inf
        self._writer: ThreadPoolExecutor | None = None

    def state_dict(self) -> dict[str, Any]:
        return {"spacing": self._spacing, "base_sha256": self._base_sha256}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._spacing, self._base_sha256 = state_dict["spacing"], state_dict["base_sha256"]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        ema: Any = pl_module.model_ema
        if ema is None or not ema.widths:
            raise Fault(
                "CFG08",
                "EmaSnapshots has nothing to write: the model's EMA keeps no widths",
                where="model.params.ema_config",
                fix="'model.params.ema_config.params.widths=[0.05,0.10]', or --base configs/options/ema-power.yaml",
            )
        if trainer.max_steps < 1 and self._spacing is None:
            raise Fault(
                "CFG08",
                "EmaSnapshots spreads its snapshots over a run whose length is not known",
                where="lightning.callbacks: EmaSnapshots",
                fix="lightning.trainer.max_steps=10000",
            )

    def at_step(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> None:
        module: Any = pl_module
        if self.first:
            self._began = step
            if trainer.is_global_zero:
                clean_leftovers(self._directory(trainer))
        if self._spacing is None:
            self._spacing = max(1.0, (trainer.max_steps - step) / self.count)
        due = self._due(step, module.model_ema.update_every)
        if (self.first or due) and self._has_base(trainer, module) and due:
            self._finish(trainer)
            self._take(trainer, module, step)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_end(trainer, pl_module)
        self._finish(trainer, last=True)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._close()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._close()

    def _close(self) -> None:
        """What was begun is written to its end."""
        if self._writer is not None:
            self._writer.shutdown()
            self._writer = None

    def _finish(self, trainer: Trainer, last: bool = False) -> None:
        """Wait for the snapshots under way and warn of those that could not be written; log others once a minute."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            try:
                job.result()
            except OSError as error:
                self._log_failure(trainer, error)
            else:
                self._unlogged += 1
        if self._unlogged and (last or time.monotonic() - self._logged_at >= LOG_EVERY):
            log.info("saved %d snapshots of the EMA in %s", self._unlogged, relative(trainer, self._directory(trainer)))
            self._unlogged, self._logged_at = 0, time.monotonic()

    def _log_failure(self, trainer: Trainer, error: OSError) -> None:
        fault = could_not_save(trainer, self._directory(trainer), error, "the run goes on without this snapshot")
        log.warning(fault.render("warning"))

    def _due(self, step: int, every: int) -> bool:
        """At the first update at or after each multiple of the spacing; the last one falls on the last update."""
        assert self._spacing is not None
        if step % every or step == 0:
            return False
        tolerance = 1e-6
        return math.floor(step / self._spacing + tolerance) > math.floor((step - every) / self._spacing + tolerance)

    def _has_base(self, trainer: Trainer, module: Any) -> bool:
        """Find the weights that all snapshots are differences to, or write them. Collective."""
        path = self._directory(trainer) / BASE
        if trainer.strategy.broadcast(trainer.is_global_zero and self._is_there(trainer, path)):
            return True
        whole = trainer.strategy.lightning_module_state_dict()  # where ranks share the weights, on rank 0
        return trainer.strategy.broadcast(trainer.is_global_zero and self._write_base(trainer, path, module, whole))

    def _write_base(self, trainer: Trainer, path: Path, module: Any, whole: dict[str, Tensor]) -> bool:
        state: Mapping[str, Tensor] = module.to_disk(whole)
        try:
            write_safetensors(path, {name: tensor.detach() for name, tensor in state.items()}, {"format": "pt"})
        except OSError as error:
            self._log_failure(trainer, error)
            return False
        self._base_sha256 = sha256(path)
        log.info("saved %s, which snapshots of the EMA are differences to", relative(trainer, path))
        return True

    def _is_there(self, trainer: Trainer, path: Path) -> bool:
        if path.is_file():
            if self.first:
                self._refuse_another_base(path)
            return True
        if self._base_sha256 is not None:
            raise Fault(
                "MOD01",
                f"{relative(trainer, path)} is gone, which this run's snapshots are differences to",
                why="without it neither earlier snapshots can be used nor new ones written",
                fix="put it back, or go on without: lightning.callbacks.ema_snapshots=null",
            )
        return False

    def _refuse_another_base(self, path: Path) -> None:
        actual = sha256(path)
        if self._base_sha256 is None:
            self._base_sha256 = actual
        elif actual != self._base_sha256:
            raise Fault(
                "MOD03",
                f"{path} is not the file that this run's snapshots are differences to",
                why=f"its sha256 begins with {actual[:12]}, that of the run with {self._base_sha256[:12]}",
                fix="put the run's own file back, or go on without: lightning.callbacks.ema_snapshots=null",
            )

    def _take(self, trainer: Trainer, module: Any, step: int) -> None:
        """Begin to write what the tracks are now. Collective where ranks hold them together, track by track."""
        for name, track in module.model_ema.tracks().items():
            if name != "ema" and track.last_update > track.start:
                average = module.model_ema.whole(track)
                if trainer.is_global_zero:
                    self._start(trainer, module, name, track, average, step)

    def _start(
        self, trainer: Trainer, module: Any, name: str, track: Track, average: dict[str, Tensor], step: int
    ) -> None:
        """Begin to write the snapshot of a track, which stays as it is until that is done."""
        assert isinstance(track.profile, PowerDecay) and self._base_sha256 is not None
        about = About(
            track=name,
            sigma_rel=track.profile.sigma_rel,
            last_update=track.last_update,
            t_offset=track.start,
            every=module.model_ema.update_every,
            base_sha256=self._base_sha256,
            attempt=follower(trainer).attempt,
            began=self._began,
        )
        path = self._directory(trainer) / f"{name}-{track.last_update:08d}.safetensors"
        if path.exists():
            if self.first:
                return  # the attempt that saved what is resumed here wrote it
            path = path.with_name(f"{path.stem}-attempt{about.attempt}.safetensors")
        state = module.to_disk(average)

        def write() -> None:
            with TensorFile(path.with_name(BASE)) as base:
                write_snapshot(path, state, base, about)

        # One thread that computes with one: it has time until the next update, and training needs the rest.
        self._writer = self._writer or ThreadPoolExecutor(1, "snapshots", lambda: torch.set_num_threads(1))
        self._jobs.append(self._writer.submit(write))
        track.hold(self._jobs[-1])

    def _directory(self, trainer: Trainer) -> Path:
        return run_directory(trainer) / self.dirpath
