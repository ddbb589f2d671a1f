"""Key names of a UNet: the blocks of diffusers, and the running numbers that CompVis files use."""

import re
from collections.abc import Iterable, Iterator
from itertools import count

ENDS = {
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
    "conv_in": "input_blocks.0.0",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
}
RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
LAYER = re.compile(r"((?:(?:down|up)_blocks\.\d+|mid_block)\.(\w+)\.\d+)\.([^.]+)(.*)")


def compvis_unet_names(keys: Iterable[str]) -> dict[str, str]:
    """{diffusers' key: CompVis' key} for any number of blocks and layers and any pattern of attention.

    The numbers follow from the keys themselves, so those of the whole network are needed. A key for which CompVis has
    no name is left out.
    """
    keys = list(keys)
    layers = {match[1] for key in keys if (match := LAYER.match(key))}
    places = dict([*_input_blocks(layers), *_middle_block(layers), *_output_blocks(layers)])
    named = {key: _compvis_name(key, places) for key in keys}
    return {key: name for key, name in named.items() if name is not None}


def _compvis_name(key: str, places: dict[str, str]) -> str | None:
    if match := LAYER.match(key):
        layer, kind, inner, rest = match.groups()
        if kind == "downsamplers" and inner == "conv":
            inner = "op"
        elif kind != "attentions":
            inner = RESNET.get(inner, inner)
        return f"{places[layer]}.{inner}{rest}" if layer in places else None
    module, _, tensor = key.rpartition(".")
    return f"{ENDS[module]}.{tensor}" if module in ENDS else None


def _input_blocks(layers: set[str]) -> Iterator[tuple[str, str]]:
    index = count(1)  # 0 is conv_in
    for block in _numbered(layers, "down_blocks.{}.resnets.0"):
        for layer in _numbered(layers, f"down_blocks.{block}.resnets.{{}}"):
            place = f"input_blocks.{next(index)}"
            yield f"down_blocks.{block}.resnets.{layer}", f"{place}.0"
            yield f"down_blocks.{block}.attentions.{layer}", f"{place}.1"
        if (sampler := f"down_blocks.{block}.downsamplers.0") in layers:
            yield sampler, f"input_blocks.{next(index)}.0"


def _middle_block(layers: set[str]) -> Iterator[tuple[str, str]]:
    for layer in _numbered(layers, "mid_block.resnets.{}"):
        yield f"mid_block.resnets.{layer}", f"middle_block.{2 * layer}"
        yield f"mid_block.attentions.{layer}", f"middle_block.{2 * layer + 1}"


def _output_blocks(layers: set[str]) -> Iterator[tuple[str, str]]:
    index = count()
    for block in _numbered(layers, "up_blocks.{}.resnets.0"):
        place = attention = ""
        for layer in _numbered(layers, f"up_blocks.{block}.resnets.{{}}"):
            place, attention = f"output_blocks.{next(index)}", f"up_blocks.{block}.attentions.{layer}"
            yield f"up_blocks.{block}.resnets.{layer}", f"{place}.0"
            yield attention, f"{place}.1"
        # CompVis appends the upsampler to the last layer of its block
        yield f"up_blocks.{block}.upsamplers.0", f"{place}.{2 if attention in layers else 1}"


def _numbered(layers: set[str], pattern: str) -> Iterator[int]:
    """0, 1, ... as long as `pattern` with this number is a layer of the network."""
    for number in count():
        if pattern.format(number) not in layers:
            return
        yield number
