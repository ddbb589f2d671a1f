"""What files call the layers of adapters: kohya's names, diffusers', and those of other writers."""

from collections.abc import Mapping
from dataclasses import replace

from torch import nn

from ldm.adapters.file_places import FilePlace
from ldm.adapters.layer import is_adaptable
from ldm.families.record import AdapterNames
from ldm.keys.table import KeyTable
from ldm.training.groups import named_layers

NETWORK, ENCODER = "unet.", "text_encoder"
BELOW = "text_model."  # where every file has a CLIP's layers, and transformers today has not
THIRD = "text_encoder_3."  # whose adapters no pipeline of diffusers loads


def kohya_names(networks: Mapping[str, nn.Module], family: AdapterNames) -> dict[str, FilePlace]:
    """{layer's name in rules: where kohya's files have it}, of all layers that may get an adapter."""
    layers = [name for name, layer in named_layers(networks).items() if is_adaptable(layer)]
    in_files = _single_file_places(networks) if family.compvis else {}
    ours = [name for name in layers if name.startswith(NETWORK)]
    names = {name: in_files.get(name, FilePlace(name.removeprefix(NETWORK))) for name in ours}
    names = {name: replace(place, key=f"lora_unet_{place.key}") for name, place in names.items()}
    for name in layers:
        if name.startswith(ENCODER):
            encoder, _, inner = name.partition(".")
            prefix = family.encoders[int(encoder.removeprefix(f"{ENCODER}_") or 1) - 1 if encoder != ENCODER else 0]
            names[name] = FilePlace(f"{prefix}_{_below(inner)}")
    return {name: replace(place, key=_flat(place.key)) for name, place in names.items()}


def diffusers_names(networks: Mapping[str, nn.Module], family: AdapterNames) -> dict[str, FilePlace]:
    """{layer's name in rules: where diffusers' files have it}, of all layers whose adapters its pipelines load."""
    layers = [name for name, layer in named_layers(networks).items() if is_adaptable(layer)]
    encoders = {name: name.partition(".") for name in layers if name.startswith(ENCODER)}
    keys = {name: f"{family.network}.{name.removeprefix(NETWORK)}" for name in layers if name.startswith(NETWORK)}
    keys |= {name: f"{e}.{_below(inner)}" for name, (e, _, inner) in encoders.items() if not name.startswith(THIRD)}
    return {name: FilePlace(key) for name, key in keys.items()}


def names_in_files(networks: Mapping[str, nn.Module], family: AdapterNames) -> dict[str, dict[str, FilePlace]]:
    """{key in a file, of whatever writer, without what follows the layer: the layers there}."""
    kohya, own = kohya_names(networks, family), diffusers_names(networks, family)
    names = [name for name, layer in named_layers(networks).items() if is_adaptable(layer)]
    inner = {name: name.removeprefix(NETWORK) for name in names if name.startswith(NETWORK)}
    in_files = {name: place for name, place in _single_file_places(networks).items() if name in inner}
    keys: dict[str, dict[str, FilePlace]] = {}
    for known in (
        kohya,
        {name: FilePlace(f"lora_unet_{_flat(key)}") for name, key in inner.items()},
        {name: FilePlace(f"lora_{family.network}_{_flat(key)}") for name, key in inner.items()},
        {name: replace(place, key=f"lora_unet_{_flat(place.key)}") for name, place in in_files.items()},
        {name: replace(place, key=f"diffusion_model.{place.key}") for name, place in in_files.items()},
        own,
        {name: FilePlace(name) for name in names},
    ):
        for name, place in known.items():
            keys.setdefault(place.key, {})[name] = place
    return keys


def _single_file_places(networks: Mapping[str, nn.Module]) -> dict[str, FilePlace]:
    """{layer's name in rules: where single files have the denoising network's weight}."""
    table = getattr(networks.get("unet"), "table", None)
    if not isinstance(table, KeyTable):
        return {}
    places = {key: FilePlace(name, swapped=key in table.swaps) for key, name in table.names.items()}
    for name, members in table.joins.items():
        places |= {key: FilePlace(name, part, len(members)) for part, key in enumerate(members)}
    end = ".weight"
    return {
        NETWORK + key.removesuffix(end): replace(place, key=place.key.removesuffix(end))
        for key, place in places.items()
        if key.endswith(end)
    }


def _below(inner: str) -> str:
    return BELOW + inner if inner.startswith("encoder.layers.") else inner


def _flat(name: str) -> str:
    return name.replace(".", "_")
