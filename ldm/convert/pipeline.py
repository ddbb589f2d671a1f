"""A model as the folder of a diffusers pipeline: reading one, and writing one that every version opens."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ldm.convert.model import Facts, Model
from ldm.convert.modelspec import side
from ldm.errors import Fault
from ldm.families.flow_marks import FLOW, flow_of_folder, folder_of_flow, is_flow
from ldm.families.infer_config import Kind, family_of, text_config, unet_config, unet_of, vae_config
from ldm.families.text_encoders import ENCODERS, Encoder
from ldm.files.load import compare, fitted
from ldm.files.read import read_state_dict
from ldm.files.size_shards import write_shards
from ldm.files.sniff import METADATA, safetensors_header
from ldm.files.source import find_source, read_config, read_json
from ldm.files.state import State
from ldm.files.write import Types, write_safetensors
from ldm.keys.layout import (
    autoencoder_to_compvis,
    autoencoder_to_diffusers,
    unet_to_compvis,
    unet_to_diffusers,
)
from ldm.keys.parts import FIRST_STAGE, UNET
from ldm.keys.text_encoders import BELOW

CARRIED = "carried.safetensors"  # what a single file held and a folder has no place for
INDEX = "model_index.json"
NOT_ARCHITECTURE = ("architectures", "model_type", "torch_dtype", "dtype", "transformers_version")
ZEROS = "force_zeros_for_empty_prompt"
NETWORK_FILE = "diffusion_pytorch_model"
SCHEDULER = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "clip_sample": False,
    "set_alpha_to_one": False,
    "steps_offset": 1,
    "timestep_spacing": "leading",
    "prediction_type": "epsilon",
}


def read_pipeline(folder: Path) -> Model:
    """The model in the folder of a pipeline, or of one of its networks. Raises `Fault` MOD01 to MOD05."""
    if not (folder / INDEX).is_file():
        return _read_network(folder)
    state = unet_to_compvis(find_source(folder / "unet", "unet").read())
    family = family_of(state, str(folder))
    state = {UNET + key: value for key, value in state.items()}
    if (folder / "vae").is_dir():
        first_stage = autoencoder_to_compvis(find_source(folder / "vae", "vae").read())
        state |= {FIRST_STAGE + key: value for key, value in first_stage.items()}
    for encoder in ENCODERS[family]:
        if (folder / encoder.folder).is_dir():
            state |= encoder.to_compvis(find_source(folder / encoder.folder, encoder.folder).read())
    facts, carried = _facts(folder), folder / CARRIED
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
        _write_unet(model, folder, how)
    else:
        _write_unet(model, folder / "unet", how)
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


def scheduler_config(facts: Facts) -> dict[str, Any]:
    """diffusers' scheduler (DDIM on DDPM's path) on the path that the model was trained on."""
    if is_flow(facts.scheduler):
        return {"_diffusers_version": version("diffusers"), **folder_of_flow(facts.scheduler)}
    told = {"prediction_type": facts.prediction or "epsilon", **facts.scheduler}
    if told.get("rescale_betas_zero_snr"):
        told["timestep_spacing"] = "trailing"  # so that sampling begins where no signal is left
    return {"_class_name": "DDIMScheduler", "_diffusers_version": version("diffusers"), **SCHEDULER, **told}


def _read_network(folder: Path) -> Model:
    from ldm.keys.layout import compvis_names

    source = find_source(folder, "unet")
    state = compvis_names(source.read(), str(folder))
    kind = "unet" if any(key.startswith(UNET) for key in state) else "vae"
    family = family_of(unet_of(state), str(folder)) if kind == "unet" else None
    return Model(state, family, str(folder), Facts(configs={kind: source.config}))


def _facts(folder: Path) -> Facts:
    names = ("unet", "vae", "text_encoder", "text_encoder_2")
    configs = {name: read_config(folder / name) for name in names if (folder / name).is_dir()}
    file = folder / "scheduler" / "scheduler_config.json"
    stored = read_json(file) if file.is_file() else {}
    zeros = read_json(folder / INDEX).get(ZEROS)
    scheduler = {key: stored[key] for key in (*SCHEDULER, "rescale_betas_zero_snr", "trained_betas") if key in stored}
    prediction = scheduler.pop("prediction_type", "epsilon")
    scheduler = {key: value for key, value in scheduler.items() if SCHEDULER.get(key) != value and value is not None}
    if flow := flow_of_folder(stored):
        prediction = FLOW
    return Facts(
        prediction=prediction,
        scheduler=flow or _of_the_path(scheduler),
        configs=configs,
        resolution=8 * size if isinstance(size := configs.get("unet", {}).get("sample_size"), int) else None,
        scale_factor=configs.get("vae", {}).get("scaling_factor"),
        files={name: content for kind in ("tokenizer", "tokenizer_2") for name, content in _files(folder, kind)},
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


def _write_unet(model: Model, folder: Path, how: Storing) -> None:
    from diffusers import UNet2DConditionModel

    assert model.family is not None
    config = model.facts.configs.get("unet") or {
        **unet_config(model.unet, model.family),
        "sample_size": (side(model) or 512) // 8,
    }
    config, keys = _on_meta(UNet2DConditionModel, config)
    state = unet_to_diffusers(model.unet, keys)
    state = _require_same(state, keys, model, "UNet")
    how.write(folder, NETWORK_FILE, UNET, state)
    _write_config("UNet2DConditionModel", config, folder)


def _write_vae(model: Model, folder: Path, how: Storing) -> None:
    from diffusers import AutoencoderKL

    config = dict(model.facts.configs.get("vae") or vae_config(model.first_stage, model.family))
    if model.facts.scale_factor is not None:
        config["scaling_factor"] = model.facts.scale_factor
    config, keys = _on_meta(AutoencoderKL, config)
    state = autoencoder_to_diffusers(model.first_stage, keys)
    state = _require_same(state, keys, model, "autoencoder")
    how.write(folder, NETWORK_FILE, FIRST_STAGE, state)
    _write_config("AutoencoderKL", config, folder)


def _write_config(name: str, config: Mapping[str, Any], folder: Path) -> None:
    head = {"_class_name": name, "_diffusers_version": version("diffusers")}
    write_json(folder / "config.json", {**head, **config})


def _write_encoder(model: Model, encoder: Encoder, folder: Path, how: Storing) -> None:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    state = encoder.to_transformers(model.state)
    told = model.facts.configs.get(encoder.folder, {})
    told = {key: value for key, value in told.items() if key not in NOT_ARCHITECTURE}
    config = {**text_config(state, encoder.activation), **told}
    kind = CLIPTextModelWithProjection if encoder.projects else CLIPTextModel
    with torch.device("meta"):
        empty = kind(CLIPTextConfig(**config)).state_dict()
    keys = {key.removeprefix(BELOW): value for key, value in empty.items()}
    state = _require_same(state, keys, model, "text encoder")
    state = encoder.for_folder(state)
    types = how.write(folder, "model", encoder.prefix, state)
    first = next(iter(state))
    dtype = types.get(first, state[first].dtype)
    head = {"architectures": [kind.__name__], "model_type": "clip_text_model", "torch_dtype": str(dtype)[6:]}
    write_json(folder / "config.json", {**config, **head})


def _write_rest(model: Model, folder: Path) -> None:
    write_json(folder / "scheduler" / "scheduler_config.json", scheduler_config(model.facts))
    for name, content in model.facts.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    write_json(folder / INDEX, _index(model))


def _index(model: Model) -> dict[str, Any]:
    kind = "StableDiffusionXL" if model.family == "sdxl" else "StableDiffusion"
    inpaints = model.unet["input_blocks.0.0.weight"].shape[1] == 9
    index: dict[str, Any] = {
        "_class_name": f"{kind}{'Inpaint' if inpaints else ''}Pipeline",
        "_diffusers_version": version("diffusers"),
        "scheduler": ["diffusers", scheduler_config(model.facts)["_class_name"]],
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"] if model.first_stage else [None, None],
        "feature_extractor": [None, None],
        "image_encoder": [None, None],
    }
    index |= {ZEROS: model.unconditional == "zeros"} if model.family == "sdxl" else _NO_CHECKER
    present = {encoder.folder for encoder in model.encoders}
    for encoder in ENCODERS[_known(model.family)]:
        name = "CLIPTextModelWithProjection" if encoder.projects else "CLIPTextModel"
        there = encoder.folder in present
        index[encoder.folder] = ["transformers", name] if there else [None, None]
        index[encoder.tokenizer] = ["transformers", "CLIPTokenizer"] if there else [None, None]
    return index


_NO_CHECKER: dict[str, Any] = {"safety_checker": [None, None], "requires_safety_checker": False}


def _known(family: Kind | None) -> Kind:
    assert family is not None
    return family


def _on_meta(kind: Any, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """All settings of a library's network, defaults too, and its names and shapes, without memory for its weights.

    Raises `Fault` MOD03 if no such network can be built.
    """
    try:
        with torch.device("meta"):
            network: Any = kind.from_config(config)
    except ValueError as error:
        raise Fault(
            "MOD03",
            f"these weights are of no {kind.__name__} that their shapes alone describe",
            why=str(error),
            fix="convert the run or its checkpoint, whose config says how the network was built",
        ) from error
    return {key: value for key, value in network.config.items() if not key.startswith("_")}, network.state_dict()


def _require_same(state: State, keys: Mapping[str, Tensor], model: Model, what: str) -> State:
    """`state` with 1x1 convolutions as matrices where the network has those, or the other way round."""
    state = {key: fitted(value, keys.get(key)) for key, value in state.items()}
    if not (found := compare(state, keys)).fits:
        why = found.render()
        raise Fault("MOD03", f"the {what} in {model.source} is not whole, or not the one that was described", why=why)
    return state


def _shared(types: Types, prefix: str, state: State) -> Types:
    """The type that all weights of a part are stored under."""
    dtype = next((dtype for key, dtype in types.items() if key.startswith(prefix)), None)
    return {key: dtype for key, value in state.items() if dtype and value.is_floating_point()}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, sort_keys=True, default=list) + "\n", encoding="utf-8")
