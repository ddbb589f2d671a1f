"""Weights for other programs, written while a run goes on."""

import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ldm.adapters.adapter_files import Layout
from ldm.convert.model import Model
from ldm.convert.model_files import DTYPES, ExportSettings, export, remarks
from ldm.convert.modelspec import metadata_of
from ldm.errors import Fault
from ldm.families.facts import Facts
from ldm.families.registry import family_of
from ldm.files.size_shards import bytes_of
from ldm.files.state import State
from ldm.keys.averaged import choose_weights, holds_average
from ldm.keys.layout import compvis_names
from ldm.keys.split_checkpoint import unet_of
from ldm.lightning_classes import LightningModule, Trainer
from ldm.models.diffusion.adapter_export import AdapterExport
from ldm.models.diffusion.ddpm import DDPM
from ldm.models.diffusion.export_facts import facts_of, networks_of
from ldm.modules.encoders.tokenizer_files import with_tokenizers
from lun.checkpoints.file_names import check_place, check_template, file_name
from lun.checkpoints.run_card import run_card
from lun.checkpoints.run_metadata import run_metadata
from lun.checkpoints.saving import not_finite, relative, run_directory, weights_are_finite
from lun.loop.boundary import AtStepBoundary
from lun.loop.lightning_internals import dump_checkpoint
from lun.loop.position_callback import follower

log = logging.getLogger(__name__)
WHERE = "lightning.callbacks: an export's "


class Export(AtStepBoundary):
    """Writes the model for InvokeAI, A1111, ComfyUI and diffusers every n optimizer steps and at the end of the run.

    every_n_train_steps  None writes at the end alone
    to                   "ldm", one file, or "diffusers", a folder
    dtype                fp32, fp16 or bf16; as they are trained where it is None
    ema                  the averaged weights where there are any (None), in any case (True), or never (False)
    max_shard_size       for "diffusers": a network of more bytes lies in several files, as "2GB"; None: one each
    outside              let dirpath and filename lead out of the run directory
    dirpath, filename    below the run directory; the template knows `{step}`, and the run's name is put before it

    Of a run that trains adapters these alone are written: for "ldm" in kohya's layout, for "diffusers" in its own.
    What `python -m lun.convert` writes from a checkpoint of the same step is the same. What cannot be written is logged
    and counted in `failed`; the run goes on.
    """

    doing = "exporting"

    def __init__(
        self,
        every_n_train_steps: int | None = None,
        to: Literal["ldm", "diffusers"] = "ldm",
        dtype: Literal["fp32", "fp16", "bf16"] | None = "fp16",
        ema: bool | None = None,
        dirpath: str = "exports",
        filename: str = "{step:06d}",
        max_shard_size: int | str | None = None,
        outside: bool = False,
    ) -> None:
        check_template(filename)
        check_place(dirpath, filename, outside)
        _require("to", to, ("ldm", "diffusers"))
        _require("dtype", dtype, (None, *DTYPES))
        if max_shard_size is not None and to == "ldm":
            what = "max_shard_size is for folders: to: ldm writes one file"
            raise Fault("CFG08", what, where=WHERE + "max_shard_size", fix="delete the line, or to: diffusers")
        self.every_n_train_steps = every_n_train_steps
        self.to = to
        self.dtype = DTYPES[dtype] if dtype else None
        self.ema = ema
        self.max_shard_size = None if max_shard_size is None else bytes_of(max_shard_size, WHERE + "max_shard_size")
        self.dirpath = dirpath
        self.filename = filename
        self.failed = 0
        self._logged = False

    def at_step(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> None:
        periodic = self.every_n_train_steps and step % self.every_n_train_steps == 0
        if self.first or not (final or periodic):
            return
        if not weights_are_finite(pl_module):
            raise not_finite(trainer, step)
        # All ranks take part in gathering; one of them writes.
        state = dump_checkpoint(trainer, weights_only=True)["state_dict"]
        if trainer.is_global_zero:
            self._write(trainer, pl_module, step, state)

    def _write(self, trainer: Trainer, pl_module: LightningModule, step: int, state: State) -> None:
        adapters = pl_module if isinstance(pl_module, DDPM) and pl_module.adapter_config is not None else None
        path = self._path(trainer, step, adapters is not None)
        try:
            if adapters is not None:
                self._write_adapters(trainer, adapters, step, state, path)
                return
            model = self._model(trainer, pl_module, step, state)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            card = run_card(run_directory(trainer), metadata_of(model, path.stem, now))
            settings = ExportSettings(
                to=self.to, dtype=self.dtype, date=now, max_shard_size=self.max_shard_size, card=card
            )
            export(model, path, settings)
        except (Fault, OSError) as error:
            self.failed += 1
            reason = error.what if isinstance(error, Fault) else str(error)
            log.warning("could not export %s: %s; training goes on", relative(trainer, path), reason)
            return
        log.info("exported %s at step %d", relative(trainer, path), step)
        for line in [] if self._logged else remarks(model, self.to):
            log.info("note: %s", line)
        self._logged = True

    def _write_adapters(self, trainer: Trainer, model: DDPM, step: int, state: State, path: Path) -> None:
        """What trained, without its base: for "ldm" in kohya's layout, which all of these programs read."""
        run = run_directory(trainer)
        chosen = choose_weights(state, self.ema, run.name)
        metadata = run_metadata(run, step, "ema" if chosen.averaged else "raw")
        trained = AdapterExport.of(model, chosen.state, run.name, metadata)
        layout: Layout = "kohya" if self.to == "ldm" else "diffusers"
        path.parent.mkdir(parents=True, exist_ok=True)
        written = trained.write(path, layout, self.dtype)
        run_card(run, trained.metadata()).beside(next(iter(written)))
        for file, what in written.items():
            log.info("exported %s at step %d: %s", relative(trainer, file), step, what)

    def _model(self, trainer: Trainer, pl_module: LightningModule, step: int, state: State) -> Model:
        run = run_directory(trainer)
        weights: Literal["ema", "raw"] = "ema" if self.ema is not False and holds_average(state) else "raw"
        state = compvis_names(choose_weights(state, self.ema, run.name).state, run.name)
        unet = unet_of(state)
        facts = facts_of(pl_module, networks_of(pl_module)) if isinstance(pl_module, DDPM) else Facts()
        facts = replace(facts, metadata=run_metadata(run, step, weights))
        model = Model(state, family_of(unet, run.name) if unet else None, run.name, facts).completed()
        return with_tokenizers(model) if self.to == "diffusers" else model

    def _path(self, trainer: Trainer, step: int, adapters: bool) -> Path:
        """Where to write; a name that an earlier attempt took is left to it."""
        run = run_directory(trainer)
        ending = ".safetensors" if self.to == "ldm" or adapters else ""
        stem = f"{run.name}-{file_name(self.filename, {'step': step}).removesuffix('.ckpt')}"
        path = run / self.dirpath / f"{stem}{ending}"
        return path.with_name(f"{stem}-attempt{follower(trainer).attempt}{ending}") if path.exists() else path


def _require(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        words = ", ".join(str(word) for word in allowed if word)
        raise Fault("CFG08", f"{name}={value!r} is not known", where=WHERE + name, why=f"it can be {words}")
