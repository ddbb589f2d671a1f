"""DDPM in pixel space and LatentDiffusion: what is noised, its conditioning, and what is logged."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ldm.diffusion.compvis_objective import DEFAULTS, combined_objective
from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws, key
from ldm.diffusion.number_limits import FROM_ZERO, SHARE, require_limits
from ldm.diffusion.objective import Losses, Objective
from ldm.diffusion.prediction import Prediction
from ldm.errors import Fault
from ldm.keys.split_checkpoint import COND_STAGE
from ldm.models.base_weights import quantised_base
from ldm.models.diffusion import initial_weights as weights
from ldm.models.diffusion.batch_losses import batch_losses
from ldm.models.diffusion.inpainting import Mask, nothing_around, surroundings
from ldm.models.diffusion.latent_scale import Factor, ScalesLatents, measure_scale_factor
from ldm.models.diffusion.learned_objective import LearnsObjective
from ldm.models.diffusion.network_holder import DiffusionWrapper
from ldm.models.diffusion.part import Part
from ldm.models.diffusion.picture_size import Pixels, Sides, pixels_of_sides
from ldm.models.diffusion.preview_rows import DrawsPictures
from ldm.models.diffusion.validation import ValidationLoss
from ldm.models.example_losses import ExampleLosses
from ldm.models.metrics import Measured, Metric, Metrics, measure
from ldm.models.model_parts import TrainingPlan, train_what_trains
from ldm.modules.encoders.conditioner import Caption, Conditioner
from ldm.training.rules import Rule, text_encoder_rules
from ldm.transfers import to_device
from ldm.util import Recipe


class DDPM(LearnsObjective, DrawsPictures):
    """A diffusion model of the pictures themselves (Ho et al. 2020, arXiv 2006.11239).

    init_from_ema   start from the averaged weights of `ckpt_path` where it holds them, not from the raw ones
    load_only_unet  take nothing but the UNet from `ckpt_path`
    metrics         {name: callable}: numbers of one's own, logged beside the losses (`ldm.models.metrics.Metric`)
    log_every_t     from one timestep to the next in the rows of `log_images`
    unet_config     recipe of the network that trains
    image_size, channels  of what it sees: latents, or pixels without a first stage
    first_stage_key, cond_stage_key  keys of pictures and of captions in a batch
    """

    accepts = "ldm.models.base.TrainedModel"
    mask: Mask | None = None

    def __init__(
        self,
        unet_config: Recipe,
        image_size: int,
        channels: int = 3,
        objective: Recipe | Objective | None = None,
        timesteps: int = 1000,
        beta_schedule: Literal["linear", "cosine", "sqrt_linear", "sqrt"] = "linear",
        linear_start: float = 1e-4,
        linear_end: float = 2e-2,
        cosine_s: float = 8e-3,
        parameterization: Prediction = "eps",
        loss_type: Literal["l1", "l2", "huber"] = "l2",
        first_stage_key: str = "image",
        init_from_ema: bool = False,
        load_only_unet: bool = False,
        log_every_t: int = 200,
        metrics: Mapping[str, Metric[Measured]] | None = None,
        **training: Any,
    ) -> None:
        super().__init__(**training)
        if log_every_t < 1:
            raise Fault("CFG03", f"log_every_t is {log_every_t}", where="model.params.log_every_t", fix="1 or more")
        self.log_every_t = log_every_t
        self.unet_config = unet_config
        self.image_size, self.channels = image_size, channels
        self.first_stage_key = first_stage_key
        self.init_from_ema = init_from_ema
        self.load_only_unet = load_only_unet
        shorthand = (timesteps, beta_schedule, linear_start, linear_end, cosine_s, parameterization, loss_type)
        self.objective = combined_objective(objective, dict(zip(DEFAULTS, shorthand, strict=True)))
        self.model: DiffusionWrapper | None = None
        self.validation, self.metrics, self.examples = ValidationLoss(), Metrics(metrics or {}), ExampleLosses()

    # Networks and weights

    def part_recipes(self) -> dict[str, Part]:
        """What `configure_model` builds: {name in messages: part}."""
        return {"network": Part("model.params.unet_config", self.unet_config, "model.diffusion_model.", "unet")}

    def configure_model(self) -> None:
        """Build the networks and read their weights, once; here and not before, so that a strategy can shard them."""
        if self.model is not None:
            return
        parts = self.part_recipes()
        torch.manual_seed(key(self.seed, "initial weights"))
        whole = self.resumed and self.adapter_config is None  # else checkpoints hold what trains, and no base
        self.adopt(weights.restored_networks(parts) if whole else weights.start_networks(parts, self.start()))
        if self.adapter_config is not None:
            self.base = quantised_base(self.disk_parts())

    def require_weights(self, files: bool = True) -> None:
        """Raise what `configure_model` would, as is known without whole files, and without any where not `files`."""
        weights.require_weights(self.part_recipes(), self.start(), files)

    def start(self) -> weights.Start:
        """Where the weights of a new run come from."""
        return weights.Start.of(self)

    def side_unit(self) -> int:
        return weights.side_unit(self.part_recipes())

    def plan_training(self) -> TrainingPlan:
        return weights.planned(self.part_recipes(), self.decide_training, self.beside_networks(), self.plans_by_shape())

    def adopt(self, networks: Mapping[str, nn.Module]) -> None:
        """Take over the networks of `part_recipes`, and settle what of them trains."""
        self.assign(networks)
        self.settle_training()
        self.train(self.training)  # Lightning goes on in the mode that it finds: frozen parts are in evaluation's

    def assign(self, networks: Mapping[str, nn.Module]) -> None:
        """Take over the networks of `part_recipes`."""
        self.model = DiffusionWrapper(networks["network"])

    def trainable_networks(self) -> dict[str, nn.Module]:
        assert self.model is not None
        return {"unet": self.model.diffusion_model}

    def disk_parts(self) -> dict[str, nn.Module]:
        assert self.model is not None
        return {"model.diffusion_model.": self.model.diffusion_model}

    # From a batch to what the network sees, and back

    def encode(self, batch: Mapping[str, Any], draws: BatchDraws) -> Tensor:
        """The clean input x_0: (b, c, h, w)."""
        return batch[self.first_stage_key].movedim(-1, 1)

    def decode(self, x0: Tensor) -> Tensor:
        """Pictures in [-1, 1] of clean inputs: (b, 3, H, W)."""
        return x0

    def condition(self, batch: dict[str, Any], draws: BatchDraws | None, x0: Tensor) -> Conditioning:
        """The conditioning for a batch and its x_0 (b, c, h, w); `draws` drop whole captions, None drops nothing."""
        return Conditioning()

    def condition_on(self, captions: list[Caption], sides: Sides | None = None) -> Conditioning:
        """The conditioning for given captions of whole pictures; `sides` (h, w) of what is noised."""
        return Conditioning()

    def unconditional(self, negatives: list[str], sides: Sides | None = None) -> Conditioning | None:
        """What guidance leads away from, "" being a dropped caption; None where there is nothing to lead away from."""
        return None

    # Steps

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        """One micro-batch: its part of the loss, a scalar."""
        self.seed_networks(batch_idx)
        draws = self.draws(batch)
        x0 = self.encode(batch, draws)
        losses, metrics = measure(self, x0, self.condition(batch, draws, x0), draws, batch)
        self.by_set.add(batch.get("set", ()), losses.weighted)
        loss = self.window_mean(losses.weighted)
        logged = {"train/loss": loss, "train/loss_simple": self.window_mean(losses.simple)}
        logged |= {f"train/{name}": self.window_mean(numbers) for name, numbers in metrics.items()}
        self.log_window(batch_idx, logged, **self.current_rates())
        return loss

    def losses(self, x0: Tensor, cond: Conditioning, draws: BatchDraws, batch: Mapping[str, Any]) -> Losses:
        """Losses of x0 (b, c, h, w), as the batch says of its examples."""
        return batch_losses(self, x0, cond, draws, batch)

    # Validation: the raw weights batch by batch, then the averaged ones in a single swap over what was encoded already

    def on_validation_epoch_start(self) -> None:
        self.validation.restart()

    def validation_step(self, batch: dict[str, Any], batch_idx: int) -> None:
        draws = self.draws(batch)
        x0 = self.encode(batch, draws)
        self.validation.add("", *measure(self, x0, self.condition(batch, None, x0), draws, batch), batch["slot"] >= 0)
        if self.model_ema is not None:
            self.validation.keep(x0, batch, draws)

    def on_validation_epoch_end(self) -> None:
        if self.model_ema is not None:
            # The precision's context too: Lightning leaves it before this hook, and latents are in half precision.
            with self.ema_scope(), self.trainer.precision_plugin.forward_context():
                for x0, batch, draws in self.validation.kept():
                    measured = measure(self, x0.to(self.device), self.condition(batch, None, x0), draws, batch)
                    self.validation.add("_ema", *measured, batch["slot"] >= 0)
        metrics = self.validation.metrics(self.trainer.strategy.reduce)
        self.log_dict({**metrics, "step": float(self.position.step)}, sync_dist=True)  # equal already, but checked for


class LatentDiffusion(DDPM, ScalesLatents):
    """A diffusion model of an autoencoder's latents, conditioned on captions (Rombach et al. 2022, arXiv 2112.10752).

    scale_factor, shift_factor, scale_by_std  the network sees scale (z - shift): numbers, or one for each channel;
                   `scale_by_std` measures the scale on the first batch instead, for about unit variance
    cond_stage_trainable, cond_stage_lr_multiple  train the text encoder too, at so much of the learning rate
    ucg_rate       share of captions dropped in training, for guidance (Ho & Salimans 2022, arXiv 2207.12598)
    encoder_ucg_rate  {encoder: share of captions kept from it alone}, of XL and SD 3: clip, open_clip, t5
    mask           for networks that inpaint: draws which part of a picture they have to make up
    first_stage_config, cond_stage_config  recipes of the autoencoder, which stays as it is, and of the text encoder
    """

    accepts = "ldm.models.diffusion.ddpm.DDPM"
    heeds = DDPM.heeds | {"ucg_rate"}
    limits = {"ucg_rate": SHARE, "cond_stage_lr_multiple": FROM_ZERO}
    first_stage_model: Any  # encode_moments(x) and decode(z)
    cond_stage_model: Any  # a list of captions to Conditioning

    def __init__(
        self,
        first_stage_config: Recipe,
        cond_stage_config: Recipe,
        cond_stage_key: str = "caption",
        cond_stage_trainable: bool = False,
        cond_stage_lr_multiple: float = 1.0,
        ucg_rate: float = 0.0,
        encoder_ucg_rate: Mapping[str, float] | None = None,
        scale_factor: Factor = 1.0,
        shift_factor: Factor = 0.0,
        scale_by_std: bool = False,
        channels: int = 4,
        mask: Mask | None = None,
        **ddpm: Any,
    ) -> None:
        super().__init__(channels=channels, **ddpm)
        self.mask = mask
        self.first_stage_config = first_stage_config
        self.cond_stage_config = cond_stage_config
        self.cond_stage_key = cond_stage_key
        self.cond_stage_trainable = cond_stage_trainable
        self.cond_stage_lr_multiple = cond_stage_lr_multiple
        self.ucg_rate = ucg_rate
        self.encoder_ucg_rate = encoder_ucg_rate
        require_limits("LatentDiffusion", self.limits, vars(self))
        self.set_scale(scale_factor, shift_factor, channels, measured=scale_by_std)

    def part_recipes(self) -> dict[str, Part]:
        first_stage = weights.without_loss(self.first_stage_config)
        return super().part_recipes() | {
            "first stage": Part("model.params.first_stage_config", first_stage, "first_stage_model.", None),
            "text encoder": Part("model.params.cond_stage_config", self.cond_stage_config, COND_STAGE, "text_encoder"),
        }

    def assign(self, networks: Mapping[str, nn.Module]) -> None:
        super().assign(networks)
        self.first_stage_model = networks["first stage"].requires_grad_(False)
        self.cond_stage_model = networks["text encoder"]
        self.conditioner = Conditioner(self.cond_stage_model, self.cond_stage_key, self.ucg_rate, self.encoder_ucg_rate)

    def disk_parts(self) -> dict[str, nn.Module]:
        return super().disk_parts() | {
            "first_stage_model.": self.first_stage_model,
            "cond_stage_model.": self.cond_stage_model,
        }

    def trainable_networks(self) -> dict[str, nn.Module]:
        return super().trainable_networks() | {"text_encoder": self.cond_stage_model}

    def default_rules(self) -> list[Rule]:
        return text_encoder_rules(self.cond_stage_trainable, self.cond_stage_lr_multiple)

    @property
    def text_encoder_trains(self) -> bool:
        """Whether anything of the text encoder does; what it gives for a caption then changes from step to step."""
        return any(parameter.requires_grad for parameter in self.cond_stage_model.parameters())

    def train(self, mode: bool = True) -> "LatentDiffusion":
        """Frozen parts stay in evaluation mode: dropout in them would be noise that nothing can learn from."""
        super().train(mode)
        if self.model is not None:
            self.first_stage_model.eval()
            train_what_trains(self.cond_stage_model, mode)
        return self

    def on_fit_start(self) -> None:
        super().on_fit_start()
        if self.scale_factor.isnan():
            measure_scale_factor(self)

    @torch.no_grad()
    def encode(self, batch: Mapping[str, Any], draws: BatchDraws) -> Tensor:
        """A scaled sample of the first stage's posterior: (b, z, h/f, w/f)."""
        if (moments := batch.get("moments")) is None:
            # Laid out as cached ones are: a convolution's last bits depend on the order of channels in memory.
            moments = self.first_stage_model.encode_moments(super().encode(batch, draws)).contiguous()
        mean, log_variance = moments.chunk(2, dim=1)
        noise = to_device(draws.normal("first_stage", mean.shape[1:]), mean.device).to(mean)
        return self.scaled(mean + (0.5 * log_variance.clamp(-30, 20)).exp() * noise)

    @torch.no_grad()
    def decode(self, x0: Tensor) -> Tensor:
        return self.first_stage_model.decode(self.unscaled(x0))

    def condition(self, batch: dict[str, Any], draws: BatchDraws | None, x0: Tensor) -> Conditioning:
        pixels = self._pixels((x0.shape[-2], x0.shape[-1]))
        with torch.set_grad_enabled(self.text_encoder_trains and torch.is_grad_enabled()):
            cond = self.conditioner(batch, draws, pixels)
        if draws is not None and self.model is not None:
            cond = self.model.with_draws(cond, draws)
        return cond._replace(concat=surroundings(self, batch, self.mask)) if self.mask else cond

    def condition_on(self, captions: list[Caption], sides: Sides | None = None) -> Conditioning:
        return self._fully_masked(self.conditioner.on(captions, self._pixels(sides)), len(captions))

    def unconditional(self, negatives: list[str], sides: Sides | None = None) -> Conditioning | None:
        return self._fully_masked(self.conditioner.away_from(negatives, self._pixels(sides)), len(negatives))

    def _fully_masked(self, cond: Conditioning, count: int) -> Conditioning:
        return cond._replace(concat=nothing_around(self, count)) if self.mask else cond

    def _pixels(self, sides: Sides | None) -> Pixels:
        return pixels_of_sides(self, sides or (self.image_size, self.image_size))
