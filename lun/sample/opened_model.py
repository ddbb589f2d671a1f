"""A model to draw from, and what is known of it: out of a run, a file, a folder or the hub."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ldm.errors import Fault
from ldm.families.whole_checkpoint import open_checkpoint
from ldm.files.read import read_content
from ldm.files.weights_location import find_weights
from ldm.models.base_weights import ENTRY
from ldm.models.diffusion.ddpm import DDPM
from ldm.models.diffusion.published import build_published
from ldm.models.restoring import restore
from lun.config.stored import read_stored, stored_value
from lun.previews.prompt_grammar import REFINED
from lun.run.build_model import build_model
from lun.run_dir.directory import RunDirectory
from lun.run_dir.resume import find_checkpoint
from lun.weights.opening import open_model

log = logging.getLogger(__name__)

LOGGER = "lightning.callbacks.image_logger.params"


@dataclass(frozen=True)
class SampledModel:
    """A model in evaluation mode on the CPU.

    name      what pictures call it
    sha256    of its file, or of the largest of a folder
    weights   "ema", "raw", or the name of an average; empty where it is not known which they are
    pictures  settings of its run's own pictures: prompts, steps, guidance
    adapters  files that were added to its weights, each with its strength
    embeddings  files whose words prompts may use, each with its word
    """

    model: DDPM
    name: str
    sha256: str
    weights: str = ""
    pictures: Mapping[str, Any] = field(default_factory=dict)
    adapters: tuple[str, ...] = ()
    embeddings: tuple[str, ...] = ()


def open_source(
    given: str,
    ema: bool | None,
    encoders: Mapping[str, str | None] = MappingProxyType({}),
    tokenizer: str | None = None,
) -> SampledModel:
    """The model that `given` means, with text `encoders` and a `tokenizer` as `build_published` takes them.

    Raises `Fault` MOD01 to MOD06, RES01 for a run without a checkpoint, CLI03 for encoders of a run, which has its own.
    """
    path = find_weights(given)
    if path.is_dir() and (path / "configs").is_dir():
        path = find_checkpoint(str(path)).checkpoint
    run = RunDirectory.around(path, "checkpoints", "exports")
    if run and run.resolved_config.is_file():
        if encoders or tokenizer:
            where = "--text-encoder" if encoders else "--tokenizer"
            raise Fault("CLI03", f"{given} has text encoders of its own", where=where, fix="leave it out")
        return _of_run(run, path, ema)
    model = build_published(open_model(given, ema).model, encoders, tokenizer)
    return SampledModel(model, path.stem if path.is_file() else path.name, open_checkpoint(given).sha256())


def _of_run(run: RunDirectory, file: Path, ema: bool | None) -> SampledModel:
    config = read_stored(run.resolved_config)
    model = build_model(config)
    if not isinstance(model, DDPM):
        why = f"the run trains {config['model']['target']}"
        raise Fault("MOD03", f"{run.path} does not draw from captions", why=why, fix="name a run of a diffusion model")
    log.info("reading  %s, by the config of %s", file, run.path)
    content = read_content(file)
    averaged = restore(model, content.state, str(file), ema, content.facts.get(ENTRY))
    log.info("weights  %s", "averaged (EMA)" if averaged else "those of the last step")
    weights = "ema" if averaged else "raw"
    return SampledModel(model, run.name, open_checkpoint(file).sha256(), weights, pictures_of_run(config))


def pictures_of_run(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the image logger of a run draws, as far as its configuration says.

    Raises `Fault` CFG03 for what cannot be meant.
    """
    options = {"steps": ("ddim_steps", int), "guidance": ("unconditional_guidance_scale", float)}
    options |= {name: (name, float) for name in REFINED}
    said = {
        "prompts": stored_value(config, f"{LOGGER}.prompts", str | Sequence[str | Mapping[str, Any]]),
        **{
            name: stored_value(config, f"{LOGGER}.log_images_kwargs.{key}", kind)
            for name, (key, kind) in options.items()
        },
    }
    return {name: value for name, value in said.items() if value is not None}
