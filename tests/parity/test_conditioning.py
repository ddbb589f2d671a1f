"""What SDXL's network is told of a picture: the arithmetic of generative-models and of diffusers, as closed forms."""

import math
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws, Draws
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.modules.networks.unet import UNet
from lun.data.example import collate
from lun.data.keyed import Keyed
from lun.data.local import Local

NARROW = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
FREQUENCIES, POOLED = 8, 8
X0 = torch.zeros(1, 4, 4, 4)
UNET = {
    "from_scratch": True,
    "sample_size": 4,
    "block_out_channels": [8, 16],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
    "layers_per_block": 1,
    "attention_head_dim": 2,
    "norm_num_groups": 4,
    "cross_attention_dim": 16,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": FREQUENCIES,
    "projection_class_embeddings_input_dim": POOLED + 6 * FREQUENCIES,
}
FIRST_STAGE = {
    "embed_dim": 4,
    "from_scratch": True,
    "ddconfig": {
        "z_channels": 4,
        "resolution": 8,
        "in_channels": 3,
        "out_ch": 3,
        "ch": 32,
        "ch_mult": [1, 1],
        "num_res_blocks": 1,
    },
}


def build(**conditioner: Any) -> LatentDiffusion:
    text = {"from_scratch": True, "clip": NARROW, "open_clip": NARROW, **conditioner}
    model = LatentDiffusion(
        unet_config={"target": "ldm.modules.networks.unet.UNet", "params": UNET},
        first_stage_config={"target": "ldm.models.autoencoder.AutoencoderKL", "params": FIRST_STAGE},
        cond_stage_config={"target": "ldm.modules.encoders.sdxl.SDXLConditioner", "params": text},
        image_size=4,
        ucg_rate=0.5,
    )
    model.configure_model()
    return model.eval()


def sinusoids(numbers: Tensor) -> Tensor:
    """generative-models' `timestep_embedding` of each number, cosines first: (b, n) to (b, n * FREQUENCIES)."""
    half = FREQUENCIES // 2
    rates = torch.exp(-math.log(10000) * torch.arange(half) / half)
    angles = numbers[..., None] * rates
    return torch.cat([angles.cos(), angles.sin()], dim=-1).flatten(1)


def label_of(network: UNet, cond: Conditioning) -> Tensor:
    """What the network adds to its time embedding, before the first matrix."""
    seen: list[Tensor] = []
    hook = network.network.add_embedding.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network(torch.zeros(len(cond.sizes), 4, 4, 4), torch.zeros(len(cond.sizes), dtype=torch.int64), cond)
    hook.remove()
    return seen[0]


@torch.no_grad()
def test_the_vector_is_pooled_text_and_the_sinusoids_of_six_numbers() -> None:
    """`ConcatTimestepEmbedderND` of original size, crop (top, left) and target size, each height first."""
    model = build()
    batch = {
        "caption": ["a fox", "a cat"],
        "image": torch.zeros(2, 8, 8, 3),
        "original_size": torch.tensor([[700, 1500], [9, 8]]),
        "crop": torch.tensor([[0, 293], [1, 0]]),
        "target_size": torch.tensor([[512, 512], [8, 8]]),
    }
    told = model.condition(batch, None, X0)
    text = model.cond_stage_model(["a fox", "a cat"])
    numbers = torch.tensor([[700.0, 1500, 0, 293, 512, 512], [9, 8, 1, 0, 8, 8]])
    assert model.model is not None
    label = label_of(model.model.diffusion_model, told)
    torch.testing.assert_close(label, torch.cat([text.pooled, sinusoids(numbers)], dim=1), atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("unconditional", ["zeros", "empty caption"])
def test_a_dropped_caption_is_told_as_guidance_tells_none(unconditional: str) -> None:
    """zeros: generative-models' `ucg_rate` and `force_zeros_for_empty_prompt`; the other is kohya's."""
    model, slots = build(unconditional=unconditional), list(range(8))
    batch = {"caption": ["a fox"] * 8, "image": torch.zeros(8, 8, 8, 3)}
    told, away = model.condition(batch, BatchDraws(0, slots), X0), model.unconditional([""], (4, 4))
    empty, fox = model.cond_stage_model([""]), model.cond_stage_model(["a fox"])
    expected = empty.map(torch.zeros_like) if unconditional == "zeros" else empty
    dropped = (BatchDraws(0, slots).uniform("caption_dropout") < 0.5).tolist()
    assert {True, False} == set(dropped)
    assert away is not None
    for name in ("context", "pooled"):
        torch.testing.assert_close(getattr(away, name), getattr(expected, name))
        for row, drop in zip(getattr(told, name), dropped, strict=True):
            torch.testing.assert_close(row, getattr(expected if drop else fox, name)[0])
    assert told.sizes is not None and told.sizes.unique(dim=0).tolist() == [[8, 8, 0, 0, 8, 8]]


@torch.no_grad()
@pytest.mark.parametrize(("sides", "pixels"), [(None, (8, 8)), ((6, 10), (12, 20))])
def test_samples_are_told_as_diffusers_pipeline_tells_them(sides: Any, pixels: tuple[int, int]) -> None:
    """`_get_add_time_ids`: original size, no crop, target size, for the caption and for none."""
    model = build()
    for told in (model.condition_on(["a fox"], sides), model.unconditional([""], sides)):
        assert told is not None and told.sizes is not None
        assert told.sizes.tolist() == [[*pixels, 0, 0, *pixels]]


LAYOUTS = {
    "flat": ("img/a.png", "txt/a.txt"),
    "beside": ("a.png", "a.txt"),
    "kohya": ("2_fox/a.png", "2_fox/a.txt"),
}


@torch.no_grad()
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bucket", [None, (16, 8)])
def test_every_layout_tells_where_a_picture_was_cut(layout: str, bucket: Any, tmp_path: Any) -> None:
    """Mirrored or not, in micro-batches or at once: kohya's crop, counted from the left of what is shown."""
    for name in LAYOUTS[layout]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
    Image.new("RGB", (31, 8)).save(tmp_path / LAYOUTS[layout][0])
    (tmp_path / LAYOUTS[layout][1]).write_text("a fox")
    data, slots = Keyed(Local(str(tmp_path), size=8), 0), range(6)
    width, height = bucket or (8, 8)
    left = (31 - width) // 2
    lefts = [31 - width - left if data.dataset.flipped(Draws(0, slot)) else left for slot in slots]
    assert len(set(lefts)) == 2
    model = build()
    for size in (6, 2):
        batches = [[data[slot, 0, bucket] for slot in slots[first : first + size]] for first in range(0, 6, size)]
        told = torch.cat([model.condition(dict(collate(batch)), None, X0).sizes for batch in batches])  # type: ignore[misc]
        assert told.tolist() == [[8, 31, 0, left, height, width] for left in lefts]
