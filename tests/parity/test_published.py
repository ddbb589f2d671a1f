"""A published model, built from its tensors alone, draws what diffusers draws."""

from pathlib import Path

import pytest
import torch
from diffusers import StableDiffusionPipeline, StableDiffusionXLPipeline
from support.small import UNETS, model

from ldm.checkpoint.anatomy import Kind
from ldm.checkpoint.export import Wish, export
from ldm.diffusion.draws import key
from ldm.models.diffusion.preview import Sampling, previewing, sample_clean
from ldm.models.diffusion.published import build_published
from ldm.modules.encoders.tokenizer_files import with_tokenizers


@pytest.mark.parametrize("family", ["sd1", "sd2", "sdxl"])
def test_latents_are_those_of_the_pipeline(family: Kind, tmp_path: Path) -> None:
    source = with_tokenizers(model(family, configs={"unet": {"sample_size": 8, **UNETS[family]}}))
    export(source, tmp_path / "folder", Wish("diffusers"))
    kind = StableDiffusionXLPipeline if family == "sdxl" else StableDiffusionPipeline
    pipeline = kind.from_pretrained(tmp_path / "folder", local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    built = build_published(source)
    with previewing(built):
        ours = sample_clean(built, ["a cat"], [5], Sampling(3, 4.0), (8, 8), ["a wet dog"])
    noise = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(key(5, "sample")))
    sizes = {"original_size": (1024, 1024), "target_size": (1024, 1024)} if family == "sdxl" else {}
    theirs = pipeline(
        "a cat",
        negative_prompt="a wet dog",
        height=64,
        width=64,
        num_inference_steps=3,
        guidance_scale=4.0,
        latents=noise,
        output_type="latent",
        **sizes,
    ).images
    assert theirs.abs().max() > 1
    assert (ours - theirs).abs().max() <= 2e-5 * theirs.abs().max()
