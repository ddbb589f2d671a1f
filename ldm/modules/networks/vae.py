"""diffusers' KL autoencoder from CompVis' `ddconfig`."""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

import torch
from torch import Tensor, nn

from ldm.errors import Fault

MOST_BLOCKS = 100
"""Blocks of a level: far more than any autoencoder has, and few enough to be built before memory is spent."""


PADDINGS = ("zeros", "reflect")


class DDConfig(TypedDict):
    """The shape of an autoencoder, in CompVis' words.

    resolution    side of the pictures that it was made for, in pixels; says where `attn_resolutions` lie
    ch, ch_mult   width, and its factor at each level; every level after the first halves the resolution
    double_z      the encoder gives mean and log-variance
    padding_mode  of every convolution that pads: zeros, or reflect, as some EQ-VAEs were trained. No file says which
    quant_conv    there are 1x1 convolutions before and after a latent (true); Stable Diffusion 3 has none
    """

    z_channels: int
    resolution: int
    in_channels: int
    out_ch: int
    ch: int
    ch_mult: list[int]
    num_res_blocks: int
    double_z: NotRequired[bool]
    attn_resolutions: NotRequired[list[int]]
    dropout: NotRequired[float]
    quant_conv: NotRequired[bool]
    padding_mode: NotRequired[Literal["zeros", "reflect"]]


def library_config(ddconfig: DDConfig, embed_dim: int) -> dict[str, Any]:
    """Arguments of `diffusers.AutoencoderKL` for a `ddconfig`, and `padding_mode`, which it has not.

    Raises `Fault` CFG03 for a key that is missing or unknown, and for what the library cannot express.
    """
    _check_keys(ddconfig)
    levels = len(ddconfig["ch_mult"])
    sides = [ddconfig["resolution"] // 2**level for level in range(levels)]
    _require(ddconfig, "double_z", ddconfig.get("double_z", True) is True, "true")
    _require(ddconfig, "dropout", not ddconfig.get("dropout", 0.0), "0.0")
    attended = ddconfig.get("attn_resolutions") or []
    _require(ddconfig, "attn_resolutions", not set(attended) & set(sides), "[]: only the middle block attends")
    _require(ddconfig, "ch_mult", levels > 0 and ddconfig["ch_mult"][0] == 1, "a list that begins with 1")
    _require(ddconfig, "ch", ddconfig["ch"] % 32 == 0, "a multiple of 32, the number of normalised groups")
    _require(ddconfig, "num_res_blocks", 0 < ddconfig["num_res_blocks"] <= MOST_BLOCKS, f"1 to {MOST_BLOCKS}")
    _require(ddconfig, "z_channels", ddconfig["z_channels"] == embed_dim, f"{embed_dim}, as embed_dim")
    padding = ddconfig.get("padding_mode", "zeros")
    _require(ddconfig, "padding_mode", padding in PADDINGS, " or ".join(PADDINGS))
    return {
        "padding_mode": padding,
        "in_channels": ddconfig["in_channels"],
        "out_channels": ddconfig["out_ch"],
        "latent_channels": embed_dim,
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "block_out_channels": [ddconfig["ch"] * factor for factor in ddconfig["ch_mult"]],
        "layers_per_block": ddconfig["num_res_blocks"],
        "norm_num_groups": 32,
        "use_quant_conv": ddconfig.get("quant_conv", True),
        "use_post_quant_conv": ddconfig.get("quant_conv", True),
    }


def build_autoencoder(config: Mapping[str, Any]) -> Any:
    """The library's network (its class is opaque to type checkers) for what `library_config` gave.

    Convolutions that it goes without are modules that do nothing, so that it is called like one that has them.
    `Fault` CFG08 for sizes that no network can have, against which the library and torch raise whatever they like.
    """
    from diffusers import AutoencoderKL

    try:
        network: Any = AutoencoderKL(**{name: value for name, value in config.items() if name != "padding_mode"})
    except (TypeError, ValueError, ArithmeticError, LookupError, RuntimeError) as error:
        why = str(error).partition("\n")[0]  # torch prints its own stack after it
        raise Fault("CFG08", "the autoencoder that ddconfig describes cannot be built", why=why) from error
    for module in network.modules():
        if isinstance(module, nn.Conv2d) and any(module.padding):
            module.padding_mode = config.get("padding_mode", "zeros")
    for name in ("quant_conv", "post_quant_conv"):
        if getattr(network, name) is None:
            setattr(network, name, nn.Identity())
    return network


def refuse_other_shape(config: Mapping[str, Any], stored: Mapping[str, Any], source: str) -> None:
    """MOD03 if a folder's `config.json` describes another network: shapes alone do not show all."""
    differing = [key for key, value in config.items() if key in stored and stored[key] != value]
    if differing:
        facts = [f"{key}: {stored[key]} there, {config[key]} here" for key in differing]
        fix = "change ddconfig to match it"
        raise Fault("MOD03", f"{source} does not fit this autoencoder", why="\n".join(facts), fix=fix)


def _check_keys(ddconfig: DDConfig) -> None:
    known = [*DDConfig.__annotations__]
    wrong = [f"unknown setting {key}" for key in ddconfig if key not in known]
    wrong += [f"missing setting {key}" for key in sorted(DDConfig.__required_keys__) if key not in ddconfig]
    if wrong:
        raise Fault("CFG03", wrong[0], where="ddconfig", why=f"an autoencoder's ddconfig takes: {', '.join(known)}")


def _require(ddconfig: Mapping[str, Any], key: str, condition: bool, allowed: str) -> None:
    if not condition:
        raise Fault(
            "CFG03",
            f"{key}={ddconfig.get(key)!r} cannot be built",
            where=f"ddconfig.{key}",
            why=f"the autoencoder is diffusers', which allows here: {allowed}",
        )


class FullPrecisionConv2d(nn.Conv2d):
    """A convolution (b, c, h, w) -> (b, c', h, w) in the dtype of its weights, whatever autocast says."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.to(self.weight.dtype))


def keep_last_layer_precise(network: Any) -> None:
    """Take the decoder's last layer out of autocast, in place.

    The losses' gradients by its weight are compared before any loss scale: averaged over a picture of 512 x 512 they
    are near 1e-6 a pixel, where float16 has one or two digits left. Three channels out, so it costs nothing.
    """
    old = network.decoder.conv_out
    shape: dict[str, Any] = {"padding": old.padding, "padding_mode": old.padding_mode, "device": "meta"}
    new = FullPrecisionConv2d(old.in_channels, old.out_channels, old.kernel_size, **shape)
    new.weight, new.bias = old.weight, old.bias
    network.decoder.conv_out = new
