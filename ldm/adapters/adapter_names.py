"""What files call the layers of adapters: kohya's names, diffusers', and those of other writers."""

from collections.abc import Mapping

from torch import nn

from ldm.adapters.layer import is_adaptable
from ldm.families.record import AdapterNames
from ldm.keys.unet import compvis_unet_names
from ldm.training.groups import named_layers

NETWORK, ENCODER = "unet.", "text_encoder"
BELOW = "text_model."  # where every file has a text encoder's layers, and transformers today has not


def kohya_names(networks: Mapping[str, nn.Module], family: AdapterNames) -> dict[str, str]:
    """{layer's name in rules: its key in kohya's files}, of all layers that may get an adapter."""
    layers = [name for name, layer in named_layers(networks).items() if is_adaptable(layer)]
    ours = [name.removeprefix(NETWORK) for name in layers if name.startswith(NETWORK)]
    compvis = _compvis(networks) if family.compvis else {}
    names = {NETWORK + name: f"lora_unet_{compvis.get(name, name)}" for name in ours}
    for name in layers:
        if name.startswith(ENCODER):
            encoder, _, inner = name.partition(".")
            prefix = family.encoders[int(encoder.removeprefix(f"{ENCODER}_") or 1) - 1 if encoder != ENCODER else 0]
            names[name] = f"{prefix}_{_below(inner)}"
    return {name: key.replace(".", "_") for name, key in names.items()}


def diffusers_names(networks: Mapping[str, nn.Module]) -> dict[str, str]:
    """{layer's name in rules: its key in diffusers' files}."""
    layers = [name for name, layer in named_layers(networks).items() if is_adaptable(layer)]
    encoders = {name: name.partition(".") for name in layers if name.startswith(ENCODER)}
    return {name: name for name in layers} | {name: f"{e}.{_below(inner)}" for name, (e, _, inner) in encoders.items()}


def names_in_files(networks: Mapping[str, nn.Module], family: AdapterNames) -> dict[str, str]:
    """{key in a file, of whatever writer, without what follows the layer: layer's name in rules}."""
    kohya = kohya_names(networks, family)
    own = diffusers_names(networks)
    compvis = {NETWORK + name: other for name, other in _compvis(networks).items()}
    keys = {key: name for name, key in kohya.items()}
    keys |= {f"lora_unet_{_flat(name.removeprefix(NETWORK))}": name for name in own if name.startswith(NETWORK)}
    keys |= {f"lora_unet_{_flat(other)}": name for name, other in compvis.items() if name in own}
    keys |= {f"diffusion_model.{other}": name for name, other in compvis.items() if name in own}
    return keys | {key: name for name, key in own.items()} | {name: name for name in own}


def _compvis(networks: Mapping[str, nn.Module]) -> dict[str, str]:
    """{diffusers' name of a UNet's layer: CompVis'}."""
    layers = named_layers({"unet": networks["unet"]}) if "unet" in networks else {}
    named = compvis_unet_names([f"{name.removeprefix(NETWORK)}.weight" for name in layers])
    return {key.removesuffix(".weight"): name.removesuffix(".weight") for key, name in named.items()}


def _below(inner: str) -> str:
    return inner if inner.startswith((BELOW, "text_projection")) else BELOW + inner


def _flat(name: str) -> str:
    return name.replace(".", "_")
