"""CompVis' way of describing a UNet, for configs that have it."""

import json
from collections.abc import Sequence

from ldm.errors import Fault
from ldm.modules.networks.unet import UNet


class UNetModel(UNet):
    """The UNet that CompVis' class of this name would build, with the same keys on disk; else `Fault` CFG03.

    The keys are those of CompVis' `openaimodel.UNetModel` (Rombach et al. 2022, appendix E; Dhariwal and Nichol 2021):

    image_size  a side of the latents in training, in latent pixels; noted, and no bound of other sizes
    in_channels  of the input: those of the latents, and of what is concatenated to them
    out_channels  of the prediction: those of the latents
    model_channels  width of the first level; the embedding of the timestep has four times as many
    num_res_blocks  residual blocks of each level on the way down; one more on the way up
    attention_resolutions  factors of downsampling (1, 2, 4, ...) at which blocks attend, not sides in pixels
    dropout  in the residual blocks, a share from 0 to 1
    channel_mult  width of each level, as a multiple of `model_channels`; the first is 1
    conv_resample  resample between levels by convolutions; only true
    dims  of a picture; only 2
    num_classes  of an embedding of class labels; only null
    use_checkpoint  compute activations twice instead of keeping them: less memory, about a third slower
    num_heads  attention heads of every level; -1 where `num_head_channels` says their width
    num_head_channels  width of an attention head; -1 where `num_heads` says how many there are
    num_heads_upsample  heads on the way up; means nothing beside a spatial transformer, in CompVis as here
    use_scale_shift_norm  let the timestep scale and shift the normalisation (FiLM) instead of being added
    resblock_updown  resample within residual blocks; only false
    use_new_attention_order  order of queries, keys and values; means nothing beside a spatial transformer, as above
    use_spatial_transformer  attend to the context as well, by cross-attention; only true
    transformer_depth  transformer blocks one after the other wherever a level attends
    context_dim  width of the context, such as 768 of CLIP ViT-L/14; needed
    n_embed  entries of a codebook to predict instead of latents; only null
    legacy  how older checkpoints counted heads; means nothing beside a spatial transformer, as above
    use_linear_in_transformer  linear layers instead of 1x1 convolutions around transformers, as SD 2.x has them
    from_scratch  begin with random weights, where nothing else gives any
    ckpt_path  a diffusers folder, a pipeline's folder, or a file with CompVis' keys, of the network alone or of a whole
        checkpoint
    """

    def __init__(
        self,
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
    ) -> None:
        _require_only("use_spatial_transformer", use_spatial_transformer, True)
        _require_only("conv_resample", conv_resample, True)
        _require_only("dims", dims, 2)
        _require_only("resblock_updown", resblock_updown, False)
        _require_only("num_classes", num_classes, None)
        _require_only("n_embed", n_embed, None)
        _require(context_dim is not None, "context_dim", context_dim, "the width of the context")
        _require(
            len(channel_mult) > 0 and channel_mult[0] == 1, "channel_mult", channel_mult, "a list that begins with 1"
        )
        widths = [model_channels * factor for factor in channel_mult]
        down, up = _block_types(attention_resolutions, len(widths))
        super().__init__(
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
