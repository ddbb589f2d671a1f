"""The loop that diffusers' own text-to-image example runs, written anew: what its users' steps and starts cost.

    python tests/bench/reference.py MODEL DATA OUT --steps 1

Settings are the example's defaults: AdamW as torch chooses it, clipping to norm 1, a constant rate, one loader without
workers, latents encoded and captions embedded at each step, the loss gathered and read twice a step, through
accelerate; the average of the weights on (`--use_ema`). Its best flag is `--foreach_ema`, and accelerate's
`--dynamo_backend inductor` beside it. Left out: torchvision's transforms, which Pillow does here, and
datasets' index of the pictures, which nobody needs who has a folder.
"""

import without_deepspeed  # isort: skip  # noqa: F401

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from accelerate import Accelerator
from diffusers import AutoencoderKL, DDPMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel
from PIL import Image
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm
from transformers import CLIPTextModel, CLIPTokenizer

DECAY = 0.9999
RATE = 1e-5
CPU = torch.device("cpu")


class Pictures(Dataset[dict[str, Tensor]]):
    """Pictures with captions: resized, cropped, mirrored half the time, in [-1, 1]; captions as tokens."""

    def __init__(self, folder: Path, size: int, tokenizer: Any) -> None:
        self.files = sorted(folder.glob("img/*.jpg"))
        self.size, self.tokenizer = size, tokenizer

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        file = self.files[index]
        with Image.open(file) as opened:
            image = opened.convert("RGB")
        scale = self.size / min(image.size)
        width, height = (round(side * scale) for side in image.size)
        left, top = (width - self.size) // 2, (height - self.size) // 2
        image = image.resize((width, height), Image.Resampling.BILINEAR)
        image = image.crop((left, top, left + self.size, top + self.size))
        if torch.rand(()) < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
        caption = (file.parents[1] / "txt" / f"{file.stem}.txt").read_text()
        length = self.tokenizer.model_max_length
        told = self.tokenizer(caption, max_length=length, padding="max_length", truncation=True, return_tensors="pt")
        return {"pixel_values": (pixels - 0.5) / 0.5, "input_ids": told.input_ids[0]}


class Script:
    """One training, a step at a time, from `begin` on."""

    def __init__(self, model: Path, data: Path, size: int, batch: int, foreach_ema: bool = False) -> None:
        self.accelerator = Accelerator(cpu=True)
        self.schedule = DDPMScheduler.from_pretrained(model / "scheduler")
        self.text = CLIPTextModel.from_pretrained(model / "text_encoder").requires_grad_(False)
        self.first_stage = AutoencoderKL.from_pretrained(model / "vae").requires_grad_(False)
        self.unet = UNet2DConditionModel.from_pretrained(model / "unet").train()
        average = UNet2DConditionModel.from_pretrained(model / "unet")
        kept = {"model_cls": UNet2DConditionModel, "model_config": average.config}
        self.average = EMAModel(average.parameters(), decay=DECAY, foreach=foreach_ema, **kept)
        pictures = Pictures(data, size, CLIPTokenizer.from_pretrained(model / "tokenizer"))
        self.loader = self.accelerator.prepare(DataLoader(pictures, shuffle=True, batch_size=batch))
        self.told: list[float] = []

    def begin(self, device: torch.device = CPU, compiled: bool = False, **adam: Any) -> Self:
        """Make the optimizer. `compiled`: torch.compile of the UNet, as accelerate does it. `adam`: what AdamW takes
        beside the rate, for devices that this machine lacks."""
        self.device = device
        for part in (self.text, self.first_stage, self.unet):
            part.to(device)
        optimizer = torch.optim.AdamW(self.unet.parameters(), lr=RATE, weight_decay=1e-2, **adam)
        rates = get_scheduler("constant", optimizer=optimizer, num_warmup_steps=500, num_training_steps=1000)
        placed = [False, False, False]
        prepared = self.accelerator.prepare(self.unet, optimizer, rates, device_placement=placed)
        self.network, self.optimizer, self.rates = prepared
        if compiled:
            self.network = torch.compile(self.network)
        self.bar = tqdm(total=1000, disable=None)
        self.batches = self.endless()
        return self

    def endless(self) -> Iterator[dict[str, Tensor]]:
        while True:
            yield from self.loader

    def step(self) -> None:
        """One optimizer step."""
        batch = {name: tensor.to(self.device) for name, tensor in next(self.batches).items()}
        with self.accelerator.accumulate(self.network):
            with torch.no_grad():
                latents = self.first_stage.encode(batch["pixel_values"]).latent_dist.sample()
                context = self.text(batch["input_ids"], return_dict=False)[0]
            latents = latents * self.first_stage.config.scaling_factor
            noise = torch.randn_like(latents)
            levels = self.schedule.config.num_train_timesteps
            times = torch.randint(0, levels, (len(latents),), device=latents.device).long()
            noisy = self.schedule.add_noise(latents, noise, times)
            answer = self.network(noisy, times, context, return_dict=False)[0]
            loss = functional.mse_loss(answer.float(), noise.float(), reduction="mean")
            self.told.append(self.accelerator.gather(loss.repeat(len(latents))).mean().item())
            self.accelerator.backward(loss)
            self.accelerator.clip_grad_norm_(self.unet.parameters(), 1.0)
            self.optimizer.step()
            self.rates.step()
            self.optimizer.zero_grad()
        self.average.step(self.unet.parameters())
        self.bar.update(1)
        self.bar.set_postfix(step_loss=loss.detach().item(), lr=self.rates.get_last_lr()[0])

    def save(self, out: Path) -> None:
        """What the example leaves behind: its training state and the averaged pipeline."""
        self.accelerator.save_state(str(out / "checkpoint"))
        self.average.copy_to(self.unet.parameters())
        pipeline = {"text_encoder": self.text, "vae": self.first_stage, "unet": self.unet, "scheduler": self.schedule}
        tokenizer = self.loader.dataset.tokenizer
        StableDiffusionPipeline(
            **pipeline, tokenizer=tokenizer, safety_checker=None, feature_extractor=None
        ).save_pretrained(out)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "data", "out"):
        asked.add_argument(name, type=Path)
    asked.add_argument("--steps", type=int, default=1)
    asked.add_argument("--size", type=int, default=128)
    asked.add_argument("--batch", type=int, default=4)
    told = asked.parse_args()
    torch.set_num_threads(1)
    script = Script(told.model, told.data, told.size, told.batch, foreach_ema=True).begin()
    for _ in range(told.steps):
        script.step()
    script.save(told.out)


if __name__ == "__main__":
    main()
