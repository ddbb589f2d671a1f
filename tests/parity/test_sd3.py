"""Stable Diffusion 3 as diffusers' pipeline has it: the conditioning, the network, Euler's steps and the latents."""

from typing import Any

import pytest
import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline
from support.sd3 import TINY, t5_tokenizer, tiny_conditioner, tiny_mmdit
from torch import Tensor
from transformers import CLIPTextModelWithProjection, CLIPTokenizer, T5EncoderModel

from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.diffusion.sampling.guidance import Guidance
from ldm.diffusion.sampling.sampler import sample
from ldm.modules.encoders import vocabulary
from ldm.modules.encoders.sd3 import SD3Conditioner
from ldm.modules.networks.mmdit import MMDiT

CAPTIONS = ["a red fox on the grass in green", "blue noise"]
LONG = ["a very long caption of the fox, " * 20, "cat"]
SHIFT = 3.0


@pytest.fixture(scope="module")
def conditioner() -> SD3Conditioner:
    return tiny_conditioner()


def clip_tokenizer(pad: str) -> CLIPTokenizer:
    words, merges = dict(vocabulary.clip_vocabulary()), list(vocabulary.clip_merges())
    return CLIPTokenizer(vocab=words, merges=merges, model_max_length=77, pad_token=pad)


def copied(network: Any, state: dict[str, Tensor]) -> Any:
    network.load_state_dict(state)
    return network.eval()


def pipeline(conditioner: SD3Conditioner, network: MMDiT, t5: bool = True) -> StableDiffusion3Pipeline:
    """diffusers' own pipeline with the same weights."""
    first, second, third = conditioner.clip_l, conditioner.clip_g, conditioner.t5xxl
    assert first is not None and second is not None and third is not None
    torch.manual_seed(0)
    vae = AutoencoderKL(
        latent_channels=4,
        block_out_channels=[32],
        shift_factor=0.0609,
        scaling_factor=1.5305,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )
    own = {key.removeprefix("network."): value for key, value in network.state_dict().items()}
    made = StableDiffusion3Pipeline(
        transformer=copied(SD3Transformer2DModel(**TINY), own),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=SHIFT),
        vae=vae.eval(),
        text_encoder=copied(CLIPTextModelWithProjection(first.transformer.config), first.transformer.state_dict()),
        tokenizer=clip_tokenizer("<|endoftext|>"),
        text_encoder_2=copied(CLIPTextModelWithProjection(second.transformer.config), second.transformer.state_dict()),
        tokenizer_2=clip_tokenizer("!"),
        text_encoder_3=copied(T5EncoderModel(third.transformer.config), third.transformer.state_dict()) if t5 else None,
        tokenizer_3=t5_tokenizer() if t5 else None,
    )
    made.set_progress_bar_config(disable=True)
    return made


@torch.no_grad()
@pytest.mark.parametrize("captions", [CAPTIONS, LONG, ["", "a"]])
@pytest.mark.parametrize("t5", [True, False])
def test_the_conditioning_is_the_pipelines(conditioner: SD3Conditioner, captions: list[str], t5: bool) -> None:
    theirs = pipeline(conditioner, tiny_mmdit(), t5)
    context, empty, pooled, empty_pooled = theirs.encode_prompt(captions, None, None, max_sequence_length=16)
    ours, none = conditioner(captions), conditioner([""] * len(captions))
    if not t5:
        for cond in (ours, none):
            conditioner.shares()["t5"][0].of(cond.context).zero_()
    for found, want in (
        (ours.context, context),
        (ours.pooled, pooled),
        (none.context, empty),
        (none.pooled, empty_pooled),
    ):
        torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("guidance", [1.0, 5.0])
def test_eulers_samples_are_the_pipelines_to_the_bit(conditioner: SD3Conditioner, guidance: float) -> None:
    network = tiny_mmdit()
    theirs = pipeline(conditioner, network)
    noise = torch.randn(2, 4, 8, 12, generator=torch.Generator().manual_seed(3))
    cond, uncond = conditioner(CAPTIONS), conditioner(["", ""])
    want = theirs(
        prompt_embeds=cond.context,
        pooled_prompt_embeds=cond.pooled,
        negative_prompt_embeds=uncond.context,
        negative_pooled_prompt_embeds=uncond.pooled,
        num_inference_steps=7,
        guidance_scale=guidance,
        latents=noise,
        height=8,
        width=12,
        output_type="latent",
    ).images
    path = RectifiedFlow(sampling_shift=SHIFT, spacing="linspace")
    ours = sample(network, path, "flow", cond, uncond, noise, steps=7, guidance=Guidance(guidance), scheduler="euler")
    assert torch.equal(ours, want)
