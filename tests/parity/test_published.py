"""A published model, built from its tensors alone, draws what diffusers draws."""

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import StableDiffusionPipeline, StableDiffusionXLPipeline
from support.small import UNETS, Kind, model

from ldm.convert.diffusers_folder import read_pipeline
from ldm.convert.model_files import ExportSettings, export
from ldm.diffusion.draws import key
from ldm.diffusion.sampling.guidance import Guidance
from ldm.models.diffusion.export_facts import facts_of
from ldm.models.diffusion.preview import Sampling, previewing, sample_clean
from ldm.models.diffusion.published import build_published
from ldm.modules.encoders.tokenizer_files import with_tokenizers


@pytest.mark.parametrize(
    ("family", "told"),
    [("sd1", {}), ("sd2", {}), ("sdxl", {"unconditional": "zeros"}), ("sdxl", {"unconditional": "empty caption"})],
    ids=lambda value: next(iter(value.values()), "") if isinstance(value, dict) else value,
)
def test_latents_are_those_of_the_exported_folders_pipeline(family: Kind, told: Any, tmp_path: Path) -> None:
    """Guided, in a size of one's own, with a word about what to avoid and without, side by side and one by one."""
    source = with_tokenizers(model(family, configs={"unet": {"sample_size": 8, **UNETS[family]}}, **told))
    export(source, tmp_path / "folder", ExportSettings("diffusers"))
    kind = StableDiffusionXLPipeline if family == "sdxl" else StableDiffusionPipeline
    pipeline = kind.from_pretrained(tmp_path / "folder", local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    read = read_pipeline(tmp_path / "folder")
    built = build_published(read)
    assert facts_of(built, {}).unconditional == read.facts.unconditional == told.get("unconditional")
    with previewing(built):
        ours = sample_clean(built, ["a cat"] * 2, [5, 6], Sampling(3, Guidance(4.0)), (8, 16), ["a wet dog", ""])
    for latents, seed, negative in zip(ours, [5, 6], ["a wet dog", None], strict=True):
        theirs = pipeline(
            "a cat",
            negative_prompt=negative,
            height=64,
            width=128,
            num_inference_steps=3,
            guidance_scale=4.0,
            latents=torch.randn(1, 4, 8, 16, generator=torch.Generator().manual_seed(key(seed, "sample"))),
            output_type="latent",
        ).images
        assert theirs.abs().max() > 1
        assert (latents - theirs[0]).abs().max() <= 2e-5 * theirs.abs().max()
