"""Whatever a person calls a model, opened: files, folders, hub ids and runs."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ldm.convert.diffusers_folder import read_pipeline
from ldm.convert.evidence import evidence_of
from ldm.convert.model import Model
from ldm.convert.modelspec import resolution_in, unconditional_in
from ldm.errors import Fault
from ldm.families.edm_marks import latents_of_marks
from ldm.families.facts import Facts
from ldm.families.registry import family_of
from ldm.files.read import Content, read_content
from ldm.files.sniff import readable_size
from ldm.files.weights_location import find_weights
from ldm.keys.averaged import ChosenWeights, choose_weights, holds_average
from ldm.keys.layout import compvis_names
from ldm.keys.split_checkpoint import unet_of
from ldm.models.diffusion.ddpm import DDPM
from ldm.models.diffusion.export_facts import facts_of, networks_on_meta
from ldm.training.adapters import is_of_adapter
from lun.checkpoints.run_metadata import run_metadata
from lun.config.stored import read_stored
from lun.run.build_model import build_model
from lun.run_dir.directory import RunDirectory
from lun.run_dir.resume import find_checkpoint
from lun.weights.trust import read_trusted

log = logging.getLogger(__name__)
MERGE = "python -m lun.convert RUN OUT --to ldm --merge, with the checkpoint in its run's directory"


@dataclass(frozen=True)
class Opened:
    """A model, the day and time of its weights (ISO 8601, UTC), and the directory of the run that made them."""

    model: Model
    date: str
    run: Path | None = None


def open_model(source: str, ema: bool | None = None, trust_pickle: bool = False) -> Opened:
    """The model that `source` means, with one set of weights; logs what it found.

    Raises `Fault` MOD01 to MOD05 for what cannot be used, RES01 for a run without a checkpoint.
    """
    path = find_weights(source)
    if path.is_dir() and not (path / "configs").is_dir():
        if ema:
            raise Fault("MOD03", f"{source} holds no averaged (EMA) weights", why="it is a diffusers folder")
        model = read_pipeline(path)
        log.info("reading  %s (diffusers folder)", path)
        newest = max(file.stat().st_mtime for file in path.rglob("*.*") if file.is_file())
        return Opened(model, _iso(newest))
    file = find_checkpoint(str(path)).checkpoint if path.is_dir() else path
    run = RunDirectory.around(file, "checkpoints")
    return Opened(_of_file(file, run, ema, trust_pickle), _iso(file.stat().st_mtime), run.path if run else None)


def _of_file(file: Path, run: RunDirectory | None, ema: bool | None, trust_pickle: bool) -> Model:
    content = read_trusted(file) if trust_pickle else read_content(file)
    training = "pytorch-lightning_version" in content.facts
    kind = f"training checkpoint, step {_step(content)}" if training else readable_size(file.stat().st_size)
    log.info("reading  %s (%s)", file, kind)
    if any(map(is_of_adapter, content.state)):
        why = "what they were trained on lies elsewhere"
        raise Fault("MOD03", f"{file} holds adapters and no whole model", why=why, fix=MERGE)
    choice = choose_weights(content.state, ema, str(file))
    _log_choice(choice, holds_average(content.state))
    state = compvis_names(choice.state, str(file))
    unet = unet_of(state)
    of_run = _facts_of_run(run) if run else None  # first: the run's own code may register the family of its network
    model = Model(state, family_of(unet, str(file)) if unet else None, str(file))
    facts = of_run or _facts_of_file(model, content, file)
    if run:
        metadata = run_metadata(run.path, _step(content), "ema" if choice.averaged else "raw")
        facts = replace(facts, metadata=metadata)
    model = replace(model, facts=replace(facts, exact=not training))
    return model.completed()


def _facts_of_file(model: Model, content: Content, file: Path) -> Facts:
    texts = {str(key): value for key, value in content.facts.items() if isinstance(value, str)}
    metadata = texts if file.suffix == ".safetensors" else {}
    if model.family is None:
        return Facts(metadata=metadata)
    evidence = evidence_of(model.state, model.family, metadata, file)
    if not evidence.certain:
        log.warning("the prediction is taken to be %s by %s; check a picture", evidence.prediction, evidence.reason)
    if evidence.against:
        what = (file, evidence.prediction, evidence.reason, evidence.against)
        log.warning("%s is taken to predict %s by %s, but %s", *what)
    latents = latents_of_marks(model.state)
    return Facts(
        evidence.prediction,
        evidence.scheduler,
        configs={"vae": {**model.latent.config(model.first_stage), **latents}} if latents and model.first_stage else {},
        scale_factor=latents.get("scaling_factor"),
        resolution=resolution_in(metadata),
        metadata=metadata,
        unconditional=unconditional_in(metadata),
    )


def _facts_of_run(run: RunDirectory) -> Facts | None:
    """What the run's configuration says; None for a run of 2022, or one that cannot be built here.

    Raises what is wrong with the configuration itself (see `read_stored`).
    """
    if not run.resolved_config.is_file():
        return None
    config = read_stored(run.resolved_config)
    try:
        model = build_model(config)
        return facts_of(model, networks_on_meta(model)) if isinstance(model, DDPM) else None
    except Fault as fault:
        log.warning("the config of %s was not used: %s", run.path, fault.what)
        return None


def _log_choice(choice: ChosenWeights, there_were_two: bool) -> None:
    others = len(choice.state) - choice.averaged
    if not choice.averaged:
        known = (
            "those of the last step; the averaged ones (EMA) stay behind" if there_were_two else "the only ones there"
        )
        log.info("weights  %s", known)
        return
    log.info("weights  averaged (EMA): %d tensors; %d others have no average", choice.averaged, others)
    if choice.kept:
        log.warning(
            "%d weights of an averaged network have no average, their raw values are used (%s ...)",
            len(choice.kept),
            choice.kept[0],
        )


def _step(content: Content) -> int | None:
    stored = content.facts.get("lun") or {}
    step = stored.get("position", {}).get("step") if isinstance(stored, Mapping) else None
    number = content.facts.get("global_step") if step is None else step
    return int(number) if number is not None else None


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
