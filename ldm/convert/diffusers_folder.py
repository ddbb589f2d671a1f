"""A model as the folder of a diffusers pipeline: reading one, and writing one that every version opens."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ldm.convert.library_networks import on_meta, require_same
from ldm.convert.model import Model
from ldm.convert.modelspec import side
from ldm.errors import Fault
from ldm.families.facts import NETWORK, Facts
from ldm.families.path_marks import data_deviation, folder_of_path, path_of_folder
from ldm.families.record import Family, OnPath, PipelineLayout
from ldm.families.registry import family_of
from ldm.families.sd1 import SD1
from ldm.families.sdxl import ZEROS
from ldm.families.stable_diffusion import SCHEDULER
from ldm.families.text_encoders import Encoder
from ldm.families.whole_checkpoint import network_folders
from ldm.files.read import read_state_dict
from ldm.files.size_shards import write_shards
from ldm.files.sniff import METADATA, safetensors_header
from ldm.files.state import State
from ldm.files.weights_location import find_source, read_config, read_json, read_scheduler
from ldm.files.write import Types, write_safetensors
from ldm.keys.layout import autoencoder_to_compvis, autoencoder_to_diffusers, compvis_names
from ldm.keys.split_checkpoint import FIRST_STAGE, UNET, unet_of

CARRIED = "carried.safetensors"  # what a single file held and a folder has no place for
INDEX = "model_index.json"
NOT_ARCHITECTURE = ("architectures", "model_type", "torch_dtype", "dtype", "transformers_version")
NETWORK_FILE = "diffusion_pytorch_model"


def read_pipeline(folder: Path) -> Model:
    """The model in the folder of a pipeline, or of one of its networks. Raises `Fault` MOD01 to MOD05."""
    if not (folder / INDEX).is_file():
        return _read_network(folder)
    state, config = _read_denoiser(folder)
    family = family_of(state, str(folder))
    state = {UNET + key: value for key, value in state.items()}
    if (folder / "vae").is_dir():
        first_stage = autoencoder_to_compvis(find_source(folder / "vae", "vae").read())
        state |= {FIRST_STAGE + key: value for key, value in first_stage.items()}
    for encoder in family.encoders:
        if (folder / encoder.folder).is_dir():
            state |= encoder.to_file(find_source(folder / encoder.folder, encoder.folder).read())
    facts, carried = _facts(folder, family, config), folder / CARRIED
    if carried.is_file():
        state |= read_state_dict(carried) if _holds_tensors(carried) else {}
        facts = replace(facts, exact=True, metadata=read_metadata(carried))
    return Model(state, family, str(folder), facts)


@dataclass(frozen=True)
class Storing:
    """How weights are stored: the type of each, and the most bytes of them in one file (None: as many as there are)."""

    types: Types
    limit: int | None

    def write(self, folder: Path, stem: str, prefix: str, state: State) -> Types:
        """Write a network's weights, whose names in the model begin with `prefix`; their types there."""
        types = _shared(self.types, prefix, state)
        write_shards(folder, stem, state, {"format": "pt"}, types, self.limit)
        return types


def write_pipeline(
    model: Model,
    folder: Path,
    dtype: torch.dtype | None,
    metadata: Mapping[str, str] | None = None,
    max_shard_size: int | None = None,
) -> None:
    """Write `model` into the new folder `folder`: a pipeline, or one network's folder if it holds only that.

    What the layout has no place for, `metadata` among it, goes to `carried.safetensors` of a pipeline: a single file
    made from the folder is then the one that the folder was made from. A network whose weights take more than
    `max_shard_size` bytes lies in several files with an index.

    Raises `Fault` MOD03 if its tensors do not make up the networks that their shapes describe.
    """
    how = Storing(model.types(dtype), max_shard_size)
    if not model.unet:
        _write_vae(model, folder, how)
    elif set(model.parts) == {"UNet"}:
        _write_denoiser(model, folder, how)
    else:
        _write_denoiser(model, folder / _layout_of(model)[0].network.folder, how)
        if model.first_stage:
            _write_vae(model, folder / "vae", how)
        for encoder in model.encoders:
            _write_encoder(model, encoder, folder / encoder.folder, how)
        _write_rest(model, folder)
        if model.facts.exact:
            write_safetensors(folder / CARRIED, unplaced(model), metadata, how.types)


def unplaced(model: Model) -> State:
    """The tensors of a model that a pipeline's folder has no place for, by their names in a single file."""
    placed = (UNET, FIRST_STAGE, *(encoder.prefix for encoder in model.encoders))
    left = {key: value for key, value in model.state.items() if not key.startswith(placed)}
    for encoder in model.encoders:
        left |= encoder.unplaced(model.state)
    return left


def read_metadata(file: Path) -> dict[str, str]:
    """The texts in the header of a safetensors file; {} where it has none."""
    return dict(safetensors_header(file).get(METADATA, {}))


def scheduler_config(
    facts: Facts, settings: Mapping[str, Any] = SCHEDULER, on_path: OnPath = folder_of_path
) -> dict[str, Any]:
    """diffusers' scheduler on the path of a model, by the `settings` and `on_path` of its family's `PipelineLayout`."""
    if other := on_path(facts):
        return {"_diffusers_version": version("diffusers"), **other}
    known = {"prediction_type": facts.prediction or "epsilon", **facts.scheduler}
    if known.get("rescale_betas_zero_snr"):
        known["timestep_spacing"] = "trailing"  # so that sampling begins where no signal is left
    return {"_diffusers_version": version("diffusers"), **settings, **known}


def _read_denoiser(folder: Path) -> tuple[State, Mapping[str, Any]]:
    """The tensors of a pipeline's denoising network, under the names of single files, and its settings.

    Raises `Fault` MOD01 where the folder holds none of a family that is known.
    """
    networks = network_folders()
    place = next((name for name in networks if (folder / name).is_dir()), SD1.network.folder)
    rename = networks[place].from_library
    assert rename is not None
    return rename(find_source(folder / place, place).read()), read_config(folder / place)


def _read_network(folder: Path) -> Model:
    source = find_source(folder, "unet")
    state = compvis_names(source.read(), str(folder))
    kind = NETWORK if any(key.startswith(UNET) for key in state) else "vae"
    family = family_of(unet_of(state), str(folder)) if kind == NETWORK else None
    scale = None if family else source.config.get("scaling_factor")
    return Model(state, family, str(folder), Facts(configs={kind: source.config}, scale_factor=scale))


def _facts(folder: Path, family: Family, network: Mapping[str, Any]) -> Facts:
    names = ("vae", *(encoder.folder for encoder in family.encoders))
    configs = {name: read_config(folder / name) for name in names if (folder / name).is_dir()}
    tokenizers = [encoder.tokenizer for encoder in family.encoders]
    stored = read_scheduler(folder)
    zeros = read_json(folder / INDEX).get(ZEROS)
    scheduler = {key: stored[key] for key in (*SCHEDULER, "rescale_betas_zero_snr", "trained_betas") if key in stored}
    prediction = scheduler.pop("prediction_type", "epsilon")
    scheduler = {key: value for key, value in scheduler.items() if SCHEDULER.get(key) != value and value is not None}
    prediction, scheduler = path_of_folder(stored) or (prediction, _of_the_path(scheduler))
    factor = configs.get("vae", {}).get("scaling_factor")
    return Facts(
        prediction=prediction,
        scheduler=scheduler,
        configs={NETWORK: network, **configs},
        resolution=8 * size if isinstance(size := network.get("sample_size"), int) else None,
        scale_factor=factor and factor / data_deviation(scheduler),
        files={name: content for kind in tokenizers for name, content in _files(folder, kind)},
        unconditional=None if zeros is None else "zeros" if zeros else "empty caption",
    )


def _of_the_path(scheduler: Mapping[str, Any]) -> dict[str, Any]:
    """What describes the noise; how another scheduler walks along it is that scheduler's matter."""
    path = ("num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "trained_betas", "rescale_betas_zero_snr")
    return {key: value for key, value in scheduler.items() if key in path and value is not False}


def _files(folder: Path, kind: str) -> Iterator[tuple[str, bytes]]:
    for file in sorted((folder / kind).glob("*")) if (folder / kind).is_dir() else []:
        if file.is_file():
            yield f"{kind}/{file.name}", file.read_bytes()


def _holds_tensors(file: Path) -> bool:
    return bool(safetensors_header(file).keys() - {METADATA})


def _write_denoiser(model: Model, folder: Path, how: Storing) -> None:
    import diffusers

    network = _layout_of(model)[0].network
    assert network.to_library is not None
    config = model.facts.configs.get(NETWORK) or {
        **network.settings(model.unet),
        "sample_size": (side(model) or 512) // 8,
    }
    config, keys = on_meta(getattr(diffusers, network.library), config)
    state = network.to_library(model.unet, keys)
    state = require_same(state, keys, model.source, network.title)
    how.write(folder, NETWORK_FILE, UNET, state)
    _write_config(network.library, config, folder)


def _write_vae(model: Model, folder: Path, how: Storing) -> None:
    from diffusers import AutoencoderKL

    if not model.family and not model.facts.configs.get("vae") and (other := model.latent.alike):
        raise Fault(
            "MOD03",
            f"{model.source} does not say by what its latents are scaled, and a folder has to",
            why=f"the autoencoder of {other} has the same names and shapes, and other latents",
            fix="convert the whole model that it belongs to, or a folder, whose config.json says it",
        )
    config = dict(model.facts.configs.get("vae") or model.latent.config(model.first_stage))
    if model.facts.scale_factor is not None:
        config["scaling_factor"] = model.facts.scale_factor * data_deviation(model.facts.scheduler)
    config, keys = on_meta(AutoencoderKL, config)
    state = autoencoder_to_diffusers(model.first_stage, keys)
    state = require_same(state, keys, model.source, "autoencoder")
    how.write(folder, NETWORK_FILE, FIRST_STAGE, state)
    _write_config("AutoencoderKL", config, folder)


def _write_config(name: str, config: Mapping[str, Any], folder: Path) -> None:
    head = {"_class_name": name, "_diffusers_version": version("diffusers")}
    write_json(folder / "config.json", {**head, **config})


def _write_encoder(model: Model, encoder: Encoder, folder: Path, how: Storing) -> None:
    import transformers

    state = encoder.to_transformers(model.state)
    original = model.facts.configs.get(encoder.folder, {})
    original = {key: value for key, value in original.items() if key not in NOT_ARCHITECTURE}
    config = {**encoder.spelling.config(state), **original}
    kind = getattr(transformers, encoder.spelling.library)
    with torch.device("meta"):
        empty = kind(kind.config_class(**config)).state_dict()
    keys = encoder.spelling.to_transformers(encoder.spelling.to_file(empty))[0]
    state = require_same(state, keys, model.source, "text encoder")
    state = encoder.spelling.for_folder(state)
    types = how.write(folder, "model", encoder.prefix, state)
    first = next(iter(state))
    dtype = types.get(first, state[first].dtype)
    head = {"architectures": [kind.__name__], "model_type": kind.config_class.model_type, "torch_dtype": str(dtype)[6:]}
    write_json(folder / "config.json", {**config, **head})


def _write_rest(model: Model, folder: Path) -> None:
    layout = _layout_of(model)[1]
    scheduler = scheduler_config(model.facts, layout.scheduler, layout.on_path)
    write_json(folder / "scheduler" / "scheduler_config.json", scheduler)
    for name, content in model.facts.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    write_json(folder / INDEX, _index(model))


def _index(model: Model) -> dict[str, Any]:
    family, layout = _layout_of(model)
    index: dict[str, Any] = {
        "_class_name": f"{layout.name}{'Inpaint' if model.inpaints else ''}Pipeline",
        "_diffusers_version": version("diffusers"),
        "scheduler": ["diffusers", scheduler_config(model.facts, layout.scheduler, layout.on_path)["_class_name"]],
        family.network.folder: ["diffusers", family.network.library],
        "vae": ["diffusers", "AutoencoderKL"] if model.first_stage else [None, None],
        "feature_extractor": [None, None],
        "image_encoder": [None, None],
    }
    index |= layout.entries(model.unconditional)
    present = {encoder.folder for encoder in model.encoders}
    for encoder in family.encoders:
        there = encoder.folder in present
        index[encoder.folder] = ["transformers", encoder.spelling.library] if there else [None, None]
        index[encoder.tokenizer] = ["transformers", encoder.spelling.tokenizer] if there else [None, None]
    return index


def _layout_of(model: Model) -> tuple[Family, PipelineLayout]:
    """The family of a model and its pipeline. Raises `Fault` MOD03 for a family that diffusers has none for."""
    family = model.family
    assert family is not None
    if family.pipeline is None or family.network.to_library is None:
        what = f"{model.source} is {family.title}, for which diffusers has no pipeline"
        raise Fault("MOD03", what, fix="write a single file instead")
    return family, family.pipeline


def _shared(types: Types, prefix: str, state: State) -> Types:
    """The type that all weights of a part are stored under."""
    dtype = next((dtype for key, dtype in types.items() if key.startswith(prefix)), None)
    return {key: dtype for key, value in state.items() if dtype and value.is_floating_point()}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, sort_keys=True, default=list) + "\n", encoding="utf-8")
