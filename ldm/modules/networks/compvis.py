"""CompVis' way of describing a UNet, for configs that have it."""

import json
from collections.abc import Sequence

from ldm.admission import configurable
from ldm.errors import Fault
from ldm.modules.networks.unet import UNet


@configurable
def UNetModel(
    image_size: int,
    in_channels: int,
    out_channels: int,
    model_channels: int,
    num_res_blocks: int,
    attention_resolutions: Sequence[int],
    dropout: float = 0,
    channel_mult: Sequence[int] = (1, 2, 4, 8),
    conv_resample: bool = True,
    dims: int = 2,
    num_classes: int | None = None,
    use_checkpoint: bool = False,
    num_heads: int = -1,
    num_head_channels: int = -1,
    num_heads_upsample: int = -1,
    use_scale_shift_norm: bool = False,
    resblock_updown: bool = False,
    use_new_attention_order: bool = False,
    use_spatial_transformer: bool = False,
    transformer_depth: int = 1,
    context_dim: int | None = None,
    n_embed: int | None = None,
    legacy: bool = True,
    use_linear_in_transformer: bool = False,
    from_scratch: bool = False,
    ckpt_path: str | None = None,
) -> UNet:
    """The UNet that CompVis' class of this name would build, with the same keys on disk; else `Fault` CFG03.

    `attention_resolutions` are factors of downsampling, not pixels. Beside a spatial transformer `num_heads_upsample`,
    `use_new_attention_order` and `legacy` mean nothing, in CompVis as here.
    """
    _require_only("use_spatial_transformer", use_spatial_transformer, True)
    _require_only("conv_resample", conv_resample, True)
    _require_only("dims", dims, 2)
    _require_only("resblock_updown", resblock_updown, False)
    _require_only("num_classes", num_classes, None)
    _require_only("n_embed", n_embed, None)
    _require(context_dim is not None, "context_dim", context_dim, "the width of the context")
    _require(len(channel_mult) > 0 and channel_mult[0] == 1, "channel_mult", channel_mult, "a list that begins with 1")
    widths = [model_channels * factor for factor in channel_mult]
    down, up = _block_types(attention_resolutions, len(widths))
    return UNet(
        *(from_scratch, ckpt_path, use_checkpoint),
        sample_size=image_size,
        in_channels=in_channels,
        out_channels=out_channels,
        block_out_channels=widths,
        layers_per_block=num_res_blocks,
        down_block_types=down,
        up_block_types=up,
        attention_head_dim=_heads(widths, num_heads, num_head_channels),
        cross_attention_dim=context_dim,
        transformer_layers_per_block=transformer_depth,
        use_linear_projection=use_linear_in_transformer,
        resnet_time_scale_shift="scale_shift" if use_scale_shift_norm else "default",
        dropout=float(dropout),
    )


def _block_types(attention_resolutions: Sequence[int], levels: int) -> tuple[list[str], list[str]]:
    """diffusers' kinds of blocks on the way down and up."""
    cross = ["CrossAttn" if 2**level in attention_resolutions else "" for level in range(levels)]
    return [f"{kind}DownBlock2D" for kind in cross], [f"{kind}UpBlock2D" for kind in reversed(cross)]


def _heads(widths: list[int], num_heads: int, num_head_channels: int) -> list[int]:
    """Attention heads of each level; diffusers calls this number `attention_head_dim`."""
    if num_head_channels == -1:
        fits = num_heads > 0 and all(width % num_heads == 0 for width in widths)
        _require(fits, "num_heads", num_heads, f"a divisor of every width {widths}, or num_head_channels instead")
        return [num_heads] * len(widths)
    fits = num_head_channels > 0 and all(width % num_head_channels == 0 for width in widths)
    _require(fits, "num_head_channels", num_head_channels, f"a divisor of every width {widths}")
    return [width // num_head_channels for width in widths]


def _require_only(key: str, value: object, only: object) -> None:
    _require(value == only, key, value, f"only {json.dumps(only)}")


def _require(condition: bool, key: str, value: object, allowed: str) -> None:
    if not condition:
        raise Fault(
            "CFG03",
            f"{key}={value!r} cannot be built",
            where=f"model.params.unet_config.params.{key}",
            why=f"the UNet is diffusers', which allows here: {allowed}",
            fix="if the network is not meant to be CompVis', describe it with target ldm.modules.networks.unet.UNet",
        )
