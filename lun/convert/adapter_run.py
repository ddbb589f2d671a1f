"""Runs that train adapters: these alone into a file, or merged with the base that they were trained on."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ldm.adapters.token_embeddings import token_tables
from ldm.convert.model import Model
from ldm.errors import Fault
from ldm.families.registry import family_of
from ldm.files.read import Content, read_content
from ldm.files.weights_location import find_weights
from ldm.keys.averaged import choose_weights
from ldm.keys.layout import compvis_names
from ldm.keys.split_checkpoint import unet_of
from ldm.models.base_weights import ENTRY
from ldm.models.diffusion.adapter_export import AdapterExport
from ldm.models.diffusion.adapter_weights import merged_state
from ldm.models.diffusion.ddpm import DDPM
from ldm.models.diffusion.export_facts import facts_of, networks_of
from ldm.models.restoring import restore
from ldm.training.adapters import is_of_adapter
from lun.checkpoints.run_metadata import run_metadata
from lun.config.stored import read_stored
from lun.run.build_model import build_model
from lun.run_dir.directory import RunDirectory
from lun.run_dir.resume import find_checkpoint

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AdapterRun:
    """A checkpoint of a run that trains adapters, and the model that its config describes, not built yet."""

    file: Path
    run: RunDirectory
    content: Content
    model: DDPM

    def trained(self, ema: bool | None) -> AdapterExport:
        """The adapters alone, averaged where there is an average (see `choose_weights`)."""
        chosen = choose_weights(self.content.state, ema, str(self.file))
        log.info("weights  %s", "averaged (EMA)" if chosen.averaged else "those of the last step")
        metadata = self._metadata("ema" if chosen.averaged else "raw") | {"modelspec.date": self.date}
        return AdapterExport.of(self.model, chosen.state, str(self.file), metadata)

    def merged(self, ema: bool | None) -> Model:
        """The whole model, its base read from where the run read it. Raises as `restore` does."""
        averaged = restore(self.model, self.content.state, str(self.file), ema, self.content.facts.get(ENTRY))
        if any(table.added() for table in token_tables(self.model.trainable_networks())):
            log.info(
                "note     whole models have no place for embeddings; without --merge they become files of their own"
            )
        state = compvis_names(self.model.to_disk(merged_state(self.model)), str(self.file))
        facts = facts_of(self.model, networks_of(self.model))
        facts = replace(facts, metadata=self._metadata("ema" if averaged else "raw"))
        return Model(state, family_of(unet_of(state), str(self.file)), str(self.file), facts).completed()

    @property
    def date(self) -> str:
        """Day and time of the weights, ISO 8601, UTC."""
        return datetime.fromtimestamp(int(self.file.stat().st_mtime), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _metadata(self, weights: Any) -> dict[str, str]:
        position = (self.content.facts.get("lun") or {}).get("position", {})
        base = (self.content.facts.get(ENTRY) or {}).get("sha256", {})
        hashes = {f"lun.base.{prefix.rstrip('.')}": value for prefix, value in base.items()}
        return run_metadata(self.run.path, position.get("step"), weights) | hashes


def adapter_run(source: str) -> AdapterRun | None:
    """The checkpoint that `source` means, where it is one of a run with adapters; None for anything else.

    Raises as `find_checkpoint`, `read_content` and `build_model` do.
    """
    path = find_weights(source)
    if path.is_dir() and not (path / "configs").is_dir():
        return None
    file = find_checkpoint(str(path)).checkpoint if path.is_dir() else path
    run = RunDirectory.around(file, "checkpoints")
    if run is None or not run.resolved_config.is_file():
        return None
    content = read_content(file)
    if not any(map(is_of_adapter, content.state)):
        return None
    model = build_model(read_stored(run.resolved_config))
    if not isinstance(model, DDPM):
        raise Fault("MOD03", f"adapters of {type(model).__name__} are read by no program", where=str(file))
    log.info("reading  %s (checkpoint of adapters)", file)
    return AdapterRun(file, run, content, model)
