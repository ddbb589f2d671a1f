"""Train the demo's small KL autoencoder on single emoji over random plain backgrounds, and write its weights.

The result is committed as configs/demo/first_stage.safetensors (CompVis key names, fp16); the demo loads it, so nobody
needs to run this to train. 9,000 steps, 40 minutes on one CPU core:

    PYTHONPATH=. python scripts/make_first_stage.py --font .../NotoColorEmoji.ttf \\
        --out configs/demo/first_stage.safetensors
"""

import argparse
import math
import unicodedata
from pathlib import Path

import torch
import torch.nn.functional as F
from make_demo import STRIKE, render
from PIL import ImageFont

from ldm.checkpoint.write import write_safetensors
from ldm.models.autoencoder import AutoencoderKL
from ldm.modules.networks.autoencoder import DDConfig

# Single code points that the font draws in colour: pictographs, dingbats, symbols.
RANGES = [
    (0x231A, 0x23FF),
    (0x25AA, 0x27BF),
    (0x2934, 0x2B55),
    (0x1F300, 0x1F64F),
    (0x1F680, 0x1F6FF),
    (0x1F900, 0x1FAFF),
]
DDCONFIG: DDConfig = {
    "double_z": True,
    "z_channels": 4,
    "resolution": 32,
    "in_channels": 3,
    "out_ch": 3,
    "ch": 32,
    "ch_mult": [1, 2, 2],
    "num_res_blocks": 1,
    "attn_resolutions": [],
    "dropout": 0.0,
}


def sprites(font_file: Path, size: int) -> torch.Tensor:
    """Every single-code-point emoji of the font: (n, 4, size, size) in [0, 1], alpha last."""
    font = ImageFont.truetype(str(font_file), STRIKE)
    found = []
    for low, high in RANGES:
        for point in range(low, high + 1):
            emoji = chr(point)
            if unicodedata.category(emoji) == "Cn" or font.getmask(emoji, mode="RGBA").getbbox() is None:
                continue
            picture = render(emoji, font).resize((size, size))
            found.append(torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(size, size, 4))
    return torch.stack(found).permute(0, 3, 1, 2).float() / 255


def draw_batch(pictures: torch.Tensor, size: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Random sprites at random scale and place over random colours: (count, 3, size, size) in [-1, 1]."""

    def uniform(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand(shape, generator=generator)

    sprite = pictures[torch.randint(len(pictures), (count,), generator=generator)]
    scale, shift = uniform(0.95, 1.45, count), uniform(-0.15, 0.15, count, 2)
    still = torch.rand(count, generator=generator) < 0.5  # half as in the demo: centred, with its margin
    scale, shift = torch.where(still, torch.tensor(1.136), scale), shift * ~still[:, None]
    flip = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
    theta = torch.zeros(count, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1], theta[:, :, 2] = scale * flip, scale, shift
    grid = F.affine_grid(theta, [count, 4, 2 * size, 2 * size], align_corners=False)
    premultiplied = torch.cat([sprite[:, :3] * sprite[:, 3:], sprite[:, 3:]], 1)
    placed = F.avg_pool2d(F.grid_sample(premultiplied, grid, align_corners=False), 2)
    background = uniform(0, 1, count, 3, 1, 1)
    return (placed[:, :3] + background * (1 - placed[:, 3:])) * 2 - 1


def train(model: AutoencoderKL, pictures: torch.Tensor, steps: int, size: int, batch: int, rate: float) -> None:
    """Minimise L1 + 2 MSE + 1e-4 KL by AdamW, with warm-up and cosine to zero.

    The KL divergence is summed over a picture's latents and divided by their number.
    """
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.99), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1, (s + 1) / 200) * (0.5 + 0.5 * math.cos(math.pi * min(1, s / steps)))
    )
    for step in range(steps):
        x = draw_batch(pictures, size, batch, generator)
        posterior = model.network.encode(x).latent_dist
        z = posterior.mean + posterior.std * torch.randn(posterior.mean.shape, generator=generator)
        error = model.decode(z) - x
        loss = error.abs().mean() + 2 * error.square().mean() + 1e-4 * posterior.kl().mean() / z[0].numel()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 250 == 0 or step == steps - 1:
            psnr = -10 * math.log10(error.square().mean().item() / 4)
            print(f"step {step} loss {loss.item():.4f} psnr {psnr:.2f} dB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--font", type=Path, required=True, help="NotoColorEmoji.ttf")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=9000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=2e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = AutoencoderKL(DDCONFIG, embed_dim=4, from_scratch=True)
    pictures = sprites(args.font, 2 * args.size)
    print(f"{len(pictures)} emoji, {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    train(model, pictures, args.steps, args.size, args.batch, args.rate)
    tensors = {key: value.half() for key, value in model.to_disk(model.state_dict()).items()}
    metadata = {"format": "pt", "title": "first stage of the emoji demo", "steps": str(args.steps)}
    write_safetensors(args.out, tensors, metadata)


if __name__ == "__main__":
    main()
