"""Networks reached through CompVis' layout compute what diffusers' and transformers' own do: the same bits."""

from collections.abc import Callable

import pytest
import torch
from diffusers import AutoencoderKL as LibraryAutoencoder
from diffusers import UNet2DConditionModel
from diffusers.loaders.single_file_utils import (
    convert_ldm_unet_checkpoint,
    convert_ldm_vae_checkpoint,
    convert_open_clip_checkpoint,
)
from torch import Tensor
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from ldm.diffusion.conditioning import Conditioning
from ldm.files.load import load_part
from ldm.keys.text_encoders import open_clip_from_transformers
from ldm.models.autoencoder import AutoencoderKL
from ldm.modules.encoders.clip import FrozenCLIPEmbedder
from ldm.modules.networks.compvis import UNetModel
from ldm.modules.networks.unet import UNet

SMALL = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
XL = {
    "block_out_channels": [32, 64, 64],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "transformer_layers_per_block": [1, 1, 2],
    "attention_head_dim": [2, 4, 4],
    "cross_attention_dim": 12,
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 60,
}


def compvis(linear: bool) -> UNet:
    heads = {"num_head_channels": 16} if linear else {"num_heads": 2}
    return UNetModel(
        image_size=8, in_channels=4, out_channels=4, model_channels=32, num_res_blocks=2,
        attention_resolutions=[4, 2, 1], channel_mult=[1, 2, 2, 2], use_spatial_transformer=True, context_dim=12,
        use_linear_in_transformer=linear, from_scratch=True, **heads,
    )  # fmt: skip


NETWORKS: dict[str, Callable[[], UNet]] = {
    "1.x": lambda: compvis(linear=False),
    "2.x": lambda: compvis(linear=True),
    "XL": lambda: UNet(from_scratch=True, sample_size=8, layers_per_block=2, **XL),
}


@pytest.mark.parametrize("family", NETWORKS)
def test_a_unet_through_compvis_names_is_diffusers_own(family: str) -> None:
    ours = NETWORKS[family]().eval()
    disk = {f"model.diffusion_model.{key}": value for key, value in ours.to_disk(ours.state_dict()).items()}
    library = UNet2DConditionModel.from_config(ours.network.config).eval()
    library.load_state_dict(convert_ldm_unet_checkpoint(dict(disk), dict(ours.network.config)), strict=True)
    again = NETWORKS[family]().eval()
    load_part(again, {key.removeprefix("model.diffusion_model."): value for key, value in disk.items()}, "disk")
    x, t, context = torch.randn(2, 4, 8, 8), torch.tensor([17, 981]), torch.randn(2, 5, 12)
    added = {"text_embeds": torch.randn(2, 12), "time_ids": torch.rand(2, 6)} if family == "XL" else {}
    cond = Conditioning(context, added.get("text_embeds"), added.get("time_ids"))
    with torch.no_grad():
        expected = library(x, t, encoder_hidden_states=context, added_cond_kwargs=added or None).sample
        assert torch.equal(again(x, t, cond), expected)
        assert expected.abs().max() > 0.1


def test_an_autoencoder_through_compvis_names_is_diffusers_own() -> None:
    ddconfig = {
        "double_z": True, "z_channels": 4, "resolution": 16, "in_channels": 3, "out_ch": 3, "ch": 32,
        "ch_mult": [1, 2, 2], "num_res_blocks": 2, "attn_resolutions": [], "dropout": 0.0,
    }  # fmt: skip
    ours = AutoencoderKL(ddconfig, embed_dim=4, from_scratch=True).eval()  # type: ignore[arg-type]
    disk = {f"first_stage_model.{key}": value for key, value in ours.to_disk(ours.state_dict()).items()}
    library = LibraryAutoencoder.from_config(ours.network.config).eval()
    library.load_state_dict(convert_ldm_vae_checkpoint(dict(disk), dict(ours.network.config)), strict=True)
    with torch.no_grad():
        x = torch.randn(2, 3, 16, 16)
        moments = ours.encode_moments(x)
        assert torch.equal(moments, library.encode(x).latent_dist.parameters)
        assert torch.equal(ours.decode(moments[:, :4]), library.decode(moments[:, :4]).sample)


def test_clip_through_compvis_names_is_transformers_own() -> None:
    ours = FrozenCLIPEmbedder(from_scratch=True, config=SMALL).eval()
    disk = ours.to_disk(ours.state_dict())
    library = CLIPTextModel(CLIPTextConfig(**SMALL)).eval()
    prefix = "transformer.text_model."
    library.load_state_dict({key.removeprefix(prefix): value for key, value in disk.items()}, strict=True)
    tokens = ours.tokenizer(["a red fox"], padding="max_length", max_length=77, return_tensors="pt").input_ids
    with torch.no_grad():
        assert torch.equal(ours(["a red fox"]).context, library(tokens).last_hidden_state)


@pytest.mark.parametrize("prefix", ["cond_stage_model.model.", "conditioner.embedders.1.model."])
def test_open_clips_names_are_read_as_diffusers_reads_them(prefix: str) -> None:
    """diffusers' reader and our writer are inverse, so that other programs see the weights that were trained."""
    projected = "embedders" in prefix
    kind = CLIPTextModelWithProjection if projected else CLIPTextModel
    library = kind(CLIPTextConfig(**SMALL, projection_dim=8))
    state: dict[str, Tensor] = library.state_dict()
    disk = {prefix + key: value for key, value in open_clip_from_transformers(state).items()}
    read = convert_open_clip_checkpoint(library, disk, prefix=prefix)
    read = {key.removeprefix("text_model."): value for key, value in read.items()}
    read = {key: value for key, value in read.items() if not key.endswith("position_ids")}
    assert read.keys() == {key.removeprefix("text_model.") for key in state}
    assert all(torch.equal(value, read[key.removeprefix("text_model.")]) for key, value in state.items())
