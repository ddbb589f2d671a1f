"""Pictures of a batch: inputs, samples, and CompVis' rows of what noise does to a picture and sampling undoes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.path import corrupt, levels
from ldm.diffusion.prediction import x0_from
from ldm.diffusion.sampling.guidance import UNGUIDED, Guidance
from ldm.models.diffusion.inpainting import Mask, surroundings
from ldm.models.diffusion.picture_size import Sides
from ldm.models.diffusion.preview import PreviewedDiffusion, Sampling, previewing, sample_clean
from ldm.modules.encoders.captions import Caption, captions_of
from ldm.scheduler_names import Scheduler

GAP = 2


class Pictured(PreviewedDiffusion, Protocol):
    """What is asked here; `ldm.models.diffusion.ddpm.DDPM` is one."""

    log_every_t: int
    mask: Mask | None


@dataclass(frozen=True)
class Wanted:
    """Which pictures are drawn, in the words of CompVis' `log_images`; each is (n, 3, H, W) in about [-1, 1].

    sample                 `samples` of the captions
    plot_reconstruction    `reconstruction`: encoded and decoded again, by a latent model
    plot_unscaled          `samples_unscaled`: the same samples without guidance, where `samples` are guided
    plot_diffusion_rows    `diffusion_row`: the noisy x_t of each picture, decoded, at every `log_every_t`-th timestep
    plot_denoise_rows      `denoise_row`: x_t on its way from noise to the sample, at about those timesteps
    plot_progressive_rows  `progressive_row`: the x_0 foreseen at those timesteps by DDPM's own sampling, which visits
                           all timesteps: 1000 calls of the network
    inpaint                `samples_inpainting`: the middle of each picture, half as wide and high, made up from what is
                           around it; `samples_outpainting`: what is around it from the middle; `mask`: white is kept
    """

    sample: bool = True
    plot_reconstruction: bool = True
    plot_unscaled: bool = False
    plot_diffusion_rows: bool = False
    plot_denoise_rows: bool = False
    plot_progressive_rows: bool = False
    inpaint: bool = False


def log_images(model: Pictured, batch: dict[str, Any], count: int, how: Sampling, wanted: Wanted) -> dict[str, Tensor]:
    """Pictures of the first `count` examples of a batch: `inputs`, and what is `wanted`.

    Samples have the size of the batch. A row is one wide picture. A batch of cached moments has no inputs to show.
    """
    with previewing(model):
        few = {name: value[:count] for name, value in batch.items()}
        scene = Scene(model, few, model.encode(few, model.draws(few)), how)
        shown = {} if "moments" in few else {"inputs": few[model.first_stage_key].movedim(-1, 1)}
        latent = "inputs" not in shown or scene.x0.shape != shown["inputs"].shape
        if wanted.plot_reconstruction and latent:
            shown["reconstruction"] = model.decode(scene.x0)
        if wanted.plot_diffusion_rows:
            shown["diffusion_row"] = scene.diffusion_row()
        if wanted.sample or wanted.plot_denoise_rows:
            drawn = scene.samples(wanted.plot_denoise_rows)
            shown |= drawn if wanted.sample else {"denoise_row": drawn["denoise_row"]}
        if wanted.plot_unscaled and not how.guidance.is_none:
            shown["samples_unscaled"] = replace(scene, how=replace(how, guidance=UNGUIDED)).samples()["samples"]
        if wanted.inpaint:
            shown |= scene.inpainted()
        if wanted.plot_progressive_rows:
            shown["progressive_row"] = scene.progressive_row()
        return shown


class Due:
    """Levels, of which each is due where sampling first comes as low."""

    def __init__(self, levels: Sequence[float]) -> None:
        self.left = list(levels)

    def at(self, t: float) -> bool:
        """Whether one is due at t; those passed over are not due again."""
        due = bool(self.left) and t <= self.left[-1]
        if due:
            self.left = [other for other in self.left if other < t]
        return due


@dataclass(frozen=True)
class Scene:
    """A few examples, their clean x_0 (b, c, h, w), and how they are sampled."""

    model: Pictured
    few: dict[str, Any]
    x0: Tensor
    how: Sampling

    @property
    def levels(self) -> list[float]:
        """The t that rows show: every `log_every_t`-th step of the path and the last, from the cleanest on."""
        path = self.model.objective.path
        last = path.timesteps - 1
        levels_shown: list[float] = levels(path)[sorted({*range(0, last, self.model.log_every_t), last})].tolist()
        return levels_shown

    def diffusion_row(self) -> Tensor:
        """x_t at `levels` as the forward process gives it, decoded: (b, 3, H, k W)."""
        return row([self.model.decode(self.noisy(t, "diffusion row")) for t in self.levels])

    def samples(self, with_row: bool = False) -> dict[str, Tensor]:
        """`samples` of the captions and, if asked, `denoise_row`, whose last picture is the sample."""
        met: list[Tensor] = []
        due = Due(self.levels)

        def watch(x: Tensor, t: Tensor) -> Tensor:
            if due.at(t.item()):
                met.append(x.to(self.x0.dtype))
            return x

        made = self.model.decode(self.drawn(self.how, before=watch if with_row else None))
        if not with_row:
            return {"samples": made}
        return {"samples": made, "denoise_row": row([*map(self.model.decode, met), made])}

    def progressive_row(self) -> Tensor:
        """The x_0 that the network foresees at `levels`, noisiest first: (b, 3, H, k W).

        DDIM over all timesteps with eta 1 is DDPM's sampling with the posterior's variance (Song et al. 2021, arXiv
        2010.02502, sec. 4.1).
        """
        path, prediction = self.model.objective.path, self.model.objective.prediction
        foreseen: list[Tensor] = []
        due, now = Due(self.levels), torch.zeros(1)

        def follow(x: Tensor, t: Tensor) -> Tensor:
            nonlocal now
            now = t.to(x.device)
            return x

        def watching(x_t: Tensor, clock: Tensor, cond: Conditioning) -> Tensor:
            output: Tensor = self.model.model(x_t, clock, cond)
            if due.at(now.item()):
                level = path.coefficients(now.expand(len(x_t)))
                foreseen.append(x0_from(prediction, output.float(), x_t.float(), *level).to(self.x0.dtype))
            return output

        self.drawn(Sampling(path.timesteps, eta=1.0), network=watching, before=follow)
        return row([self.model.decode(x0) for x0 in foreseen])

    def inpainted(self) -> dict[str, Tensor]:
        """The middle of each picture made up, then what is around it, and which part is kept in the first."""
        *_, height, width = self.x0.shape
        kept = torch.ones(len(self.x0), 1, height, width, device=self.x0.device)
        kept[..., height // 4 : 3 * height // 4, width // 4 : 3 * width // 4] = 0
        return {
            "samples_inpainting": self.model.decode(self.made_up(kept)),
            "samples_outpainting": self.model.decode(self.made_up(1 - kept)),
            "mask": kept * 2 - 1,
        }

    def made_up(self, kept: Tensor) -> Tensor:
        """Samples (b, c, h, w) that follow x_0 where `kept` (b, 1, h, w) is 1: x_t is set to its noised x_0 there
        ahead of each step (CompVis' DDIM sampler). A network for inpainting takes what is kept as input besides."""

        def keep(x: Tensor, t: Tensor) -> Tensor:
            return kept * self.noisy(t.item(), "inpainting").to(x) + (1 - kept) * x

        return self.drawn(self.how, before=keep, network=self.inpainting_network(kept))

    def inpainting_network(self, kept: Tensor) -> Callable[[Tensor, Tensor, Conditioning], Tensor]:
        """The network, with what `kept` (b, 1, h, w) leaves among its inputs where it takes them."""
        network = self.model.model
        if self.model.mask is None:
            return network
        around = surroundings(
            cast(Any, self.model), dict(self.few), lambda draws, height, width: F.interpolate(1 - kept, (height, width))
        )

        def with_surroundings(x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
            inpainted = cond._replace(concat=around.repeat(len(x_t) // len(around), 1, 1, 1))
            return network(x_t, t, inpainted)

        return with_surroundings

    def noisy(self, t: float, purpose: str) -> Tensor:
        """x_t of x_0 at one level, with noise of its own: (b, c, h, w)."""
        path = self.model.objective.path
        kind = torch.int64 if path.discrete else torch.float32
        alpha, sigma = path.coefficients(torch.full((len(self.x0),), t, dtype=kind, device=self.x0.device))
        noise = self.model.draws(self.few).normal(f"{purpose} {t}", self.x0.shape[1:]).to(self.x0)
        return corrupt(self.x0, noise, alpha, sigma).to(self.x0.dtype)

    def drawn(self, how: Sampling, **hooks: Any) -> Tensor:
        """Samples of the captions from the slots' seeds, in the size of the batch: (b, c, h, w)."""
        seeds = [int(slot) for slot in self.few["slot"]]
        captions = captions_of(self.few) if "caption" in self.few else [""] * len(seeds)
        return sample_clean(self.model, captions, seeds, how, (self.x0.shape[-2], self.x0.shape[-1]), **hooks)


def row(pictures: list[Tensor]) -> Tensor:
    """Pictures of the same examples side by side, white between them: k of (b, 3, H, W) to (b, 3, H, k W + gaps)."""
    gap = torch.ones_like(pictures[0][..., :GAP])
    return torch.cat([part for picture in pictures for part in (picture, gap)][:-1], dim=-1)


class DrawsPictures:
    """The side of a diffusion model that draws pictures for people."""

    def log_images(
        self: Pictured,
        batch: dict[str, Any],
        split: str = "train",
        N: int = 8,
        ddim_steps: int = 50,
        ddim_eta: float = 0.0,
        unconditional_guidance_scale: float = 1.0,
        sample: bool = True,
        plot_reconstruction: bool = True,
        plot_unscaled: bool = False,
        plot_diffusion_rows: bool = False,
        plot_denoise_rows: bool = False,
        plot_progressive_rows: bool = False,
        inpaint: bool = False,
        guidance_rescale: float = 0.0,
        guidance_low: float = 0.0,
        guidance_high: float | None = None,
    ) -> dict[str, Tensor]:
        """Pictures of the first N examples of a batch: see `log_images` of this file, `Wanted` for the flags, and
        `ldm.diffusion.sampling.guidance.Guidance`."""
        guidance = Guidance(unconditional_guidance_scale, guidance_rescale, guidance_low, guidance_high)
        how = Sampling(ddim_steps, guidance, ddim_eta)
        wanted = Wanted(
            sample,
            plot_reconstruction,
            plot_unscaled,
            plot_diffusion_rows,
            plot_denoise_rows,
            plot_progressive_rows,
            inpaint,
        )
        return log_images(self, batch, N, how, wanted)

    def sample_prompts(
        self: Pictured,
        prompts: Sequence[Caption],
        seeds: list[int],
        steps: int = 50,
        guidance: float = 1.0,
        negatives: Sequence[str] = (),
        guidance_rescale: float = 0.0,
        guidance_low: float = 0.0,
        guidance_high: float | None = None,
        scheduler: Scheduler = "ddim",
        sides: Sides | None = None,
    ) -> Tensor:
        """Samples of fixed prompts with fixed seeds, comparable over training: (n, 3, H, W) in about [-1, 1].

        negatives  a caption for each that guidance leads away from, by default the empty one
        sides      (h, w) of what is noised, by default a square of the model's `image_size`
        """
        guided = Guidance(guidance, guidance_rescale, guidance_low, guidance_high)
        how = Sampling(steps, guided, scheduler=scheduler)
        with previewing(self):
            return self.decode(sample_clean(self, prompts, seeds, how, sides, negatives))
