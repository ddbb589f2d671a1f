"""Files of adapters as diffusers reads them: its pipelines load ours and compute what we do."""

from typing import Any

import pytest
import torch
from support.tiny_networks import FAMILIES, MATCHES, adapt, tiny_networks
from torch import nn

from ldm.adapters.adapter_files import Layout, to_file
from ldm.adapters.adapter_names import diffusers_names, kohya_names
from ldm.adapters.layer import adapters_in
from ldm.diffusion.conditioning import Conditioning
from ldm.training.groups import named_layers

pytest.importorskip("peft")  # diffusers loads adapters by it


ONLY_OTHERS = ("SD 3", "kohya")  # which ComfyUI reads, and diffusers does not


def pipeline_of(family: str, networks: dict[str, nn.Module]) -> Any:
    """A pipeline of the same weights, without adapters and without what draws nothing."""
    import diffusers

    unet, told = networks["unet"].network, networks["text_encoder"]
    if family == "SD 1.x":
        parts = {"text_encoder": told.transformer, "tokenizer": None, "safety_checker": None, "feature_extractor": None}
        made: Any = diffusers.StableDiffusionPipeline
        return made(vae=None, unet=unet, scheduler=None, requires_safety_checker=False, **parts)
    if family == "SD 3":
        encoders = (told.clip_l.transformer, told.clip_g.transformer, told.t5xxl.transformer)  # type: ignore[union-attr]
        named = zip(("text_encoder", "text_encoder_2", "text_encoder_3"), encoders, strict=True)
        rest = dict.fromkeys(("vae", "scheduler", "tokenizer", "tokenizer_2", "tokenizer_3"))
        return diffusers.StableDiffusion3Pipeline(transformer=unet, **dict(named), **rest)  # type: ignore[arg-type]
    first, second = (embedder.transformer for embedder in told.embedders)  # type: ignore[union-attr]
    parts = {"text_encoder": first, "text_encoder_2": second, "tokenizer": None, "tokenizer_2": None}
    return diffusers.StableDiffusionXLPipeline(vae=None, unet=unet, scheduler=None, **parts)  # type: ignore[arg-type]


def computed(networks: dict[str, nn.Module]) -> list[torch.Tensor]:
    """What the denoising network and the text encoders give for fixed inputs."""
    generator = torch.Generator().manual_seed(2)
    config = networks["unet"].network.config
    width = config.get("cross_attention_dim") or config.joint_attention_dim
    cond = Conditioning(torch.randn(2, 5, width, generator=generator))
    if width != 8:
        sizes = torch.tensor([[4.0, 4, 0, 0, 4, 4]] * 2)
        vector = torch.randn(2, config.get("pooled_projection_dim", 8), generator=generator)
        cond = cond._replace(pooled=vector, sizes=sizes)
    x = torch.randn(2, 4, 4, 4, generator=generator)
    encoders = [m for m in networks["text_encoder"].modules() if hasattr(m, "get_input_embeddings")][:1]
    with torch.no_grad():
        states = [encoder(torch.tensor([[49406, 320, 49407]])).last_hidden_state for encoder in encoders]
        return [networks["unet"].eval()(x, torch.tensor([10, 500]), cond), *states]


@pytest.mark.parametrize(
    ("family", "layout"),
    [(family, layout) for family in FAMILIES for layout in ("kohya", "diffusers") if (family, layout) != ONLY_OTHERS],
)
def test_diffusers_computes_with_our_file_what_we_do(family: str, layout: Layout) -> None:
    networks, record = tiny_networks(family), FAMILIES[family].adapters
    assert record is not None
    plain = computed(networks)
    adapt(networks, *MATCHES[family])
    ours = computed(networks)
    layers = {name: adapter.tensors() for name, adapter in adapters_in(named_layers(networks))}
    names = (kohya_names if layout == "kohya" else diffusers_names)(networks, record)
    state = to_file(layers, names, layout, None)
    others = tiny_networks(family)
    pipeline_of(family, others).load_lora_weights({key: value.clone() for key, value in state.items()})
    for own, their, before in zip(ours, computed(others), plain, strict=True):
        assert (own - before).abs().max() > 1e-3
        torch.testing.assert_close(their, own, rtol=0, atol=2e-6)
