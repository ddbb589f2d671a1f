"""A model out into the world: a single file or a pipeline's folder, whole or not at all, never over something else."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from ldm.convert.diffusers_folder import write_json, write_pipeline
from ldm.convert.inference_yaml import inference_yaml
from ldm.convert.model import NETWORKS, Model
from ldm.convert.model_card import ModelCard
from ldm.convert.modelspec import metadata_of
from ldm.convert.written_folder import MARK, files_in, listed_files
from ldm.diffusion.prediction_names import PredictionType
from ldm.errors import Fault
from ldm.families.edm_marks import CENTRE, EDM, SIGMA_MAX, V, is_edm
from ldm.families.flow_marks import FLOW, flow_of_folder, is_flow
from ldm.files.load import is_finite
from ldm.files.replacing import replacing, replacing_folder
from ldm.files.state import State
from ldm.files.write import (
    Types,
    require_space,
    stored_size,
    write_errors_as_faults,
    write_safetensors,
    write_torch,
)
from ldm.keys.split_checkpoint import FIRST_STAGE, parts_in

Layout = Literal["ldm", "diffusers"]
Format = Literal["safetensors", "ckpt"]
KNOWN_ON: Mapping[str, tuple[PredictionType, ...]] = {
    "DDPM's path": ("epsilon", "v_prediction", "sample"),
    "rectified flow": (FLOW,),
    "EDM's levels": (EDM, V),
}
"""What diffusers' schedulers and readers of single files draw from."""
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class ExportSettings:
    """What a file or folder is to be like.

    dtype  of the networks' weights; None keeps theirs
    title  in the metadata; the name of the file where it is empty
    date   of the weights, ISO 8601
    force  replace what is there
    max_shard_size  bytes of weights in one file of a folder; a network that takes more lies in several
    card   the page to lay beside a file or into a folder
    """

    to: Layout
    format: Format = "safetensors"
    dtype: torch.dtype | None = None
    title: str = ""
    date: str = ""
    force: bool = False
    max_shard_size: int | None = None
    card: ModelCard | None = None


def export(model: Model, out: Path, settings: ExportSettings) -> tuple[Path, ...]:
    """Write `model` to `out`; returns what was written: a folder, or a file, the YAML that it may need and its card.

    Raises `Fault` CLI05 if there is something that may not be replaced, DSK01 if it cannot be written, MOD02 for
    numbers that are not finite, MOD03 for tensors that make up no network, MOD07 for numbers too large for `dtype`.
    """
    require_free(out, settings)
    require_known_objective(model, settings.to)
    require_finite(model)
    if settings.to == "ldm":
        model = model.completed()
    require_space(out.parent, stored_size(model.state, model.types(settings.dtype)), str(out))
    with write_errors_as_faults(str(out)):
        if settings.to == "ldm":
            written = _write_single(model, out, settings)
            return (*written, settings.card.beside(out)) if settings.card else written
        with replacing_folder(out) as folder:
            metadata = metadata_of(model, settings.title or out.name, settings.date)
            write_pipeline(model, folder, settings.dtype, metadata, settings.max_shard_size)
            if settings.card:
                settings.card.within(folder, out)
            write_json(folder / MARK, {"files": sorted(files_in(folder))})
        return (out,)


def require_free(out: Path, settings: ExportSettings) -> None:
    """Raise `Fault` CLI05 unless `out` is free, or is of the kind that `force` may replace."""
    reason = _foreign(out) if settings.to == "diffusers" else "" if out.is_file() else "it is no file"
    if out.exists() and reason:
        fix = f"name another place; to={settings.to} would not replace it even with force=true"
        raise Fault("CLI05", f"{out} is there already and is not replaced", why=reason, fix=fix)
    if out.exists() and not settings.force:
        raise _taken(out)


def require_known_objective(model: Model, to: Layout) -> None:
    """Raise `Fault` MOD03 for a network that predicts what no program draws from on its path, or in this layout."""
    if not model.unet:
        return
    prediction, scheduler = model.facts.prediction, model.facts.scheduler
    paths = {"rectified flow": is_flow(scheduler), "EDM's levels": is_edm(scheduler)}
    path = next((name for name, there in paths.items() if there), "DDPM's path")
    if prediction not in KNOWN_ON[path]:
        raise Fault(
            "MOD03",
            f"{model.source} predicts {prediction} on {path}, which other programs have no setting for",
            why="; ".join(f"they know {', '.join(known)} on {name}" for name, known in KNOWN_ON.items()),
            fix="draw from the run that it came from",
        )
    if to == "ldm" and is_edm(scheduler) and not (model.family and model.family.marks(model.facts)):
        raise Fault(
            "MOD03",
            f"{model.source} was trained on EDM's levels, which a single file of it cannot record",
            why=f"readers know them in files of XL by {SIGMA_MAX} (v, sigma_data=1) and by {' and '.join(CENTRE)}"
            " (levels of the paper, latents with a mean and a deviation for each channel)",
            fix="write a folder: to=diffusers",
        )


def require_finite(model: Model) -> None:
    """Raise `Fault` MOD02 if a network's weight is NaN or infinite."""
    for key, value in model.state.items():
        if key.startswith(NETWORKS) and value.is_floating_point() and not is_finite(value):
            why = "training diverged, or the file was damaged"
            raise Fault("MOD02", f"{model.source} holds NaN or infinite numbers", where=key, why=why)


def remarks(model: Model, to: Layout) -> list[str]:
    """What a person has to know who opens a file or folder of this model elsewhere, one sentence each."""
    lines = _remarks_on_file(model) if to == "ldm" else []
    if "UNet" in model.parts and "VAE" not in model.parts:
        lines.append("there is no VAE in it: choose one in the program that opens it, or add one with vae=FILE")
    if foreign := model.foreign_text_encoder:
        lines.append(
            f"its text encoder ({len(foreign)} tensors, such as {foreign[0]}) is one that other programs do not know:"
            " they find network and VAE in it and need prompt embeddings from elsewhere"
            + (" (from_pretrained(OUT, text_encoder=None, tokenizer=None))" if to == "diffusers" else "")
        )
    elif "UNet" in model.parts and "text encoder" not in model.parts:
        lines.append("there is no text encoder in it: other programs need one from elsewhere")
    if to == "diffusers":
        lines += _other_levels(model)
    if to == "diffusers" and (lacking := _without_tokenizer(model)):
        lines.append(f"there is no {' and no '.join(lacking)} in it: programs would take an empty one without a word")
    return lines


def _other_levels(model: Model) -> list[str]:
    """What a folder's scheduler does otherwise than the samples here, on rectified flow."""
    layout, scheduler = model.family.pipeline if model.family else None, model.facts.scheduler
    if layout is None or not is_flow(scheduler):
        return []
    theirs = flow_of_folder(layout.on_path(model.facts) or {})["timestep_spacing"]
    ours = scheduler.get("timestep_spacing", theirs)
    return [f"samples here visit levels that are spaced {ours}; its scheduler spaces them {theirs}"] * (ours != theirs)


def _without_tokenizer(model: Model) -> list[str]:
    """The folders of tokenizers that a model's text encoders need and that it has no files of."""
    there = {name.partition("/")[0] for name in model.facts.files}
    return [encoder.tokenizer for encoder in model.encoders if encoder.tokenizer not in there]


def _remarks_on_file(model: Model) -> list[str]:
    if model.family is None:
        return [model.latent.remark] if model.latent.remark else []
    prediction, usual = model.facts.prediction, model.usual_unconditional
    lines = []
    if is_flow(model.facts.scheduler):
        shift = model.facts.scheduler.get("flow_shift", 1.0)
        lines.append(
            "it was trained by rectified flow, which other programs have no mark of (in ComfyUI a ModelSamplingSD3 node"
            f" with shift {shift:g}); only a folder records them (to=diffusers)"
        )
    if is_edm(model.facts.scheduler):
        mark = SIGMA_MAX if prediction == V else CENTRE[0]
        lines.append(f"it was trained on EDM's levels: ComfyUI knows it by {mark}, others read only a folder")
    lines += [model.family.remarks[prediction]] if prediction and prediction in model.family.remarks else []
    if model.unconditional != usual:
        lines.append(
            f"it was trained with the {model.unconditional} in the place of none, where other programs take {usual}:"
            " only a folder records them (to=diffusers)"
        )
    return lines


def _write_single(model: Model, out: Path, settings: ExportSettings) -> tuple[Path, ...]:
    state = single_names(model)
    types = model.types(settings.dtype)
    types = types if model.family else {key.removeprefix(FIRST_STAGE): dtype for key, dtype in types.items()}
    if not (model.family and model.family.needs_yaml(model.facts)):
        _write_file(state, out, settings, model, types)
        return (out,)
    beside = out.with_suffix(".yaml")
    if beside.exists() and not settings.force:
        raise _taken(beside)
    with replacing(beside) as file:
        file.write(inference_yaml(model).encode())
        _write_file(state, out, settings, model, types)
    return (out, beside)


def _write_file(state: State, out: Path, settings: ExportSettings, model: Model, types: Types) -> None:
    if settings.format == "safetensors":
        write_safetensors(out, state, metadata_of(model, settings.title or out.stem, settings.date), types)
    else:
        write_torch(out, state, types)


def single_names(model: Model) -> State:
    """The names in a single file: CompVis', and for an autoencoder alone those without a prefix, as programs expect."""
    if set(parts_in(model.state)) != {"VAE"}:
        return model.state
    return {key.removeprefix(FIRST_STAGE): value for key, value in model.state.items()}


def _taken(path: Path) -> Fault:
    return Fault("CLI05", f"{path} exists already", fix="name another place, or force=true to replace it")


def _foreign(path: Path) -> str:
    """Why not even `force` replaces a folder; empty for what an export wrote whole, and for an empty one.

    What it wrote it has listed in a file of its own there, so that nothing of anybody else's goes with it.
    """
    if not path.is_dir() or path.is_symlink():
        return "it is no folder"
    held = files_in(path)
    if not held and not any(path.iterdir()):
        return ""
    listed = listed_files(path)
    if listed is None:
        return f"this program did not write it (it holds no {MARK})"
    others = sorted(held - listed - {MARK})
    return f"it holds what this program did not write: {', '.join(others[:3])}" if others else ""


def require_apart(source: Path, out: Path) -> None:
    """Raise `Fault` CLI05 where `out` is what is read, or a folder around it."""
    if source.exists() and source.resolve().is_relative_to(out.resolve()):
        what = f"{out} {'is' if source.resolve() == out.resolve() else 'holds'} what is converted, and is not replaced"
        raise Fault("CLI05", what, where=str(source), fix="name another place")
