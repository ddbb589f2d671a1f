"""The KL autoencoder between pictures and latents (Rombach et al. 2022, arXiv 2112.10752): as a part, and trained."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ldm.diffusion.draws import key
from ldm.errors import Fault
from ldm.lightning_internals import forget_logged, leave_uncounted
from ldm.models import autoencoder_preview
from ldm.models.adversarial_passes import discriminator_pass, generator_pass
from ldm.models.autoencoder_metrics import LOGGED, Quality, Reconstructed, means
from ldm.models.autoencoder_plan import (
    DECODER_ALONE,
    networks_of,
    planned,
    refuse_quantised_base,
    refuse_trainer,
    require_start,
)
from ldm.models.base import TrainedModel
from ldm.models.drift import Drift
from ldm.models.first_stage import FirstStage
from ldm.models.metrics import Metric, Metrics
from ldm.models.model_parts import ForwardUnit, TrainingPlan
from ldm.models.pixels import on_device
from ldm.modules.equivariance import STILL, Equivariance, Motion
from ldm.modules.losses.contperceptual import LPIPSWithDiscriminator
from ldm.modules.networks.vae import DDConfig, keep_last_layer_precise, library_config
from ldm.modules.posterior import Posterior
from ldm.training.groups import Group
from ldm.training.rules import Rule
from ldm.training.window import Micro, advance, mean_of, still
from ldm.util import Recipe, instantiate_from_config

ADAM = {"target": "torch.optim.Adam", "params": {"betas": [0.5, 0.9]}}


class AutoencoderKL(FirstStage, TrainedModel):
    """Encodes pictures to the moments of a latent and decodes latents.

    Without a `lossconfig` it is a part of another model: built, and filled from `ckpt_path`, at once; what is frozen is
    its owner's decision. With one it is itself a model to train, against its discriminator: two optimizers, stepped by
    hand, whose window, clipping and counting of steps are those of every other model here.

    ddconfig              shape of encoder and decoder, in CompVis' words: z_channels, ch, ch_mult, num_res_blocks, ...
    from_scratch          begin with random weights
    embed_dim             channels of a latent
    lossconfig            recipe of an LPIPSWithDiscriminator; `torch.nn.Identity` counts as none
    ckpt_path             a diffusers folder (vae/) or a pipeline's, or a file of it alone or of a whole checkpoint
    colorize_nlabels      null alone: label maps are not supported
    ignore_keys           beginnings of keys on disk that are neither loaded nor asked for
    image_key             key of the pictures in a batch
    train                 `decoder` leaves encoder and quant_conv as they are, to the bit: latents keep their meaning
    encoder_frozen_steps  steps before encoder and quant_conv are trained, too
    equivariance          turns and shrinks latents before they are decoded, in a share of the steps (EQ-VAE)
    metrics               {name: callable of a `Reconstructed`}: numbers of one's own, logged beside the losses

    The attributes `downsampling` (pixels per latent, a side) and `z_channels` describe a latent.
    """

    accepts = "ldm.models.base.TrainedModel"
    by_hand = ("accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm")
    leaves_parameters_unused = True

    def __init__(
        self,
        ddconfig: DDConfig,
        embed_dim: int,
        lossconfig: Recipe | None = None,
        ckpt_path: str | None = None,
        ignore_keys: tuple[str, ...] | list[str] = (),
        image_key: str = "image",
        colorize_nlabels: int | None = None,
        monitor: str | None = None,
        from_scratch: bool = False,
        train: Literal["all", "decoder"] = "all",
        encoder_frozen_steps: int = 0,
        equivariance: Equivariance | None = None,
        metrics: Mapping[str, Metric[Reconstructed]] | None = None,
        **training: Any,
    ) -> None:
        refuse_quantised_base(training)
        training["optimizer_config"] = training.get("optimizer_config") or ADAM
        super().__init__(monitor=monitor, ckpt_path=ckpt_path, ignore_keys=ignore_keys, **training)
        if colorize_nlabels is not None:
            raise Fault("CFG03", "colorize_nlabels is for label maps, which are not supported", fix="delete the line")
        self.automatic_optimization = False
        self.accumulate_grad_batches = 1
        self.gradient_clip_val: float | None = None
        self.gradient_clip_algorithm: str | None = None
        self.lossconfig = None if (lossconfig or {}).get("target") == "torch.nn.Identity" else lossconfig
        self.image_key = image_key
        self.from_scratch = from_scratch
        self.only_decoder = train == "decoder"
        self.encoder_frozen_steps = encoder_frozen_steps
        self.equivariance = equivariance
        self.loaded_from = None
        self.library_config = library_config(ddconfig, embed_dim)
        self.downsampling = 2 ** (len(ddconfig["ch_mult"]) - 1)
        self.z_channels = embed_dim
        self.loss: LPIPSWithDiscriminator | None = None
        self.network = None
        self._window: list[Micro] = []
        self._drift = Drift()
        self.metrics = Metrics(metrics or {}, LOGGED)
        if self.lossconfig is None:
            self.build_network(self.library_config, self.ckpt_path, self.ignore_keys)

    # Network and weights

    def configure_model(self) -> None:
        """Build networks and loss and read the weights, once, as a model to train."""
        if self.network is not None:
            return
        torch.manual_seed(key(self.seed, "initial weights"))
        self.build_network(self.library_config, None if self.resumed else self.ckpt_path, self.ignore_keys)
        keep_last_layer_precise(self.network)
        self.loss = instantiate_from_config(self.lossconfig or {})
        self.settle_training()

    def require_weights(self, files: bool = True) -> None:
        """Raise `Fault` MOD06 if training would start from noise unasked, MOD01 for files that are not there."""
        require_start(self.lossconfig, self.ckpt_path, self.from_scratch, files)

    def disk_parts(self) -> dict[str, nn.Module]:
        return {}  # as a part or as a whole, this module translates its own names

    def clips_at(self) -> float | None:
        return self.gradient_clip_val

    def trainable_networks(self) -> dict[str, nn.Module]:
        return networks_of(self.network)

    def default_rules(self) -> list[Rule]:
        return [DECODER_ALONE] if self.only_decoder else []

    def plan_training(self) -> TrainingPlan:
        return planned(self.library_config, self.decide_training)

    def forward_units(self) -> list[ForwardUnit]:
        """The decoder stays whole for its last layer, by whose weight gradients are compared amid the forward pass."""
        assert self.loss is not None
        network = self.network
        parts = [network.encoder, network.quant_conv, network.post_quant_conv, self.loss.discriminator]
        units = [ForwardUnit(part, precise=True) for part in parts if any(p.requires_grad for p in part.parameters())]
        return [*units, ForwardUnit(network.decoder, stays_whole=True, precise=True)]

    def pictures(self, batch: Mapping[str, Any]) -> Tensor:
        """(b, 3, h, w) in [-1, 1]."""
        return batch[self.image_key].movedim(-1, 1)

    def moments(self, batch: Mapping[str, Any]) -> Tensor:
        """Of the latents of a batch's pictures, wherever that lies: (b, 2 z, h/f, w/f)."""
        return self.encode_moments(self.pictures(batch).to(self.device))

    def reconstruct(self, batch: Mapping[str, Any], motion: Motion = STILL) -> tuple[Tensor, Posterior]:
        """A batch's pictures encoded, sampled with their own draws, moved, and decoded: (b, 3, h, w)."""
        frozen = self.only_decoder or self.position.step < self.encoder_frozen_steps
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            posterior = Posterior.of(self.moments(batch))
        return self.decode(motion(posterior.sample(self._noise(batch, posterior)), 1)), posterior

    def _noise(self, batch: Mapping[str, Any], posterior: Posterior) -> Tensor:
        return self.draws(batch).normal("first_stage", posterior.mean.shape[1:])

    # Steps

    @classmethod
    def refuse_trainer(cls, trainer: Mapping[str, Any]) -> None:
        """Raises the `Fault` of `ldm.models.autoencoder_plan.refuse_trainer`."""
        refuse_trainer(trainer)

    def configure_optimizers(self) -> Any:
        """The generator's optimizer and the discriminator's, by the same recipes."""
        assert self.loss is not None
        configured = [super().configure_optimizers(), self.configure_optimizer([self.judging_group()])]
        return [one["optimizer"] for one in configured], [one["lr_scheduler"] for one in configured]

    def judging_group(self) -> Group:
        """What the discriminator's optimizer steps."""
        assert self.loss is not None
        return Group("discriminator", {}, [*self.loss.discriminator.parameters()])

    def optimized_weights(self) -> dict[str, nn.Parameter]:
        """Those of the generator."""
        return {name: one for name, one in super().optimized_weights().items() if ".discriminator." not in name}

    def _build_ema(self) -> None:
        """Of encoder and decoder alone."""
        assert self.loss is not None
        with still(self.loss):
            super()._build_ema()

    def on_fit_start(self) -> None:
        super().on_fit_start()
        # Lightning refuses the number where optimization is by hand; from here on it only paces its logging by it.
        self.trainer.accumulate_grad_batches = self.accumulate_grad_batches
        data = getattr(self.trainer, "datamodule", None)
        if self.position.step == 0 and data is not None and data.has("validation"):
            with self.trainer.precision_plugin.forward_context():
                self._drift.remember(self.moments, (on_device(self, batch) for batch in data.val_dataloader()))

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        """The scalar loss of a micro-batch; a window ends by steps of the generator and then the discriminator.

        Each optimizer finishes its window before the other begins, since they share one loss scale.
        """
        assert self.loss is not None
        forget_logged(self.trainer)
        self.seed_networks(batch_idx)
        of_window = self.accumulate_grad_batches
        measured, found = generator_pass(self, batch, self.average, lambda loss: self.manual_backward(loss / of_window))
        self._window.append(Micro(found.x0, found.made, measured.log | means(self.metrics, found)))
        if (batch_idx + 1) % of_window == 0:
            self._complete_window()
        return measured.loss.detach()

    def _complete_window(self) -> None:
        assert self.loss is not None
        window, self._window = self._window, []
        generator, judge = self.optimizers()
        generator.step()
        self._loss_scale.watch()  # the discriminator's step, too, may be skipped
        generator.zero_grad()
        log = mean_of([micro.log for micro in window]) | {"disc_loss": torch.zeros((), device=self.device)}
        if self.loss.takes_part(self.position.step):
            log |= self._teach_discriminator(leave_uncounted(judge), window)
        log = {"aeloss": log["total_loss"], "discloss": log["disc_loss"]} | {f"train/{k}": v for k, v in log.items()}
        self.keep_window(log, **self.current_rates())
        advance(self.lr_schedulers())

    def _teach_discriminator(self, judge: Any, window: list[Micro]) -> dict[str, Tensor]:
        assert self.loss is not None
        judge.zero_grad()
        log = discriminator_pass(self.loss, window, self.manual_backward)
        judge.step()
        judge.zero_grad()
        return log

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Clip here and nowhere else: before, gradients are still multiplied by float16's loss scale."""
        clip = {"gradient_clip_val": self.gradient_clip_val, "gradient_clip_algorithm": self.gradient_clip_algorithm}
        self.clip_gradients(optimizer, **clip)

    # Validation: the raw weights, then the averaged ones in a single swap over the same batches, read once more

    def on_validation_epoch_start(self) -> None:
        self._quality = Quality()
        self._drift.restart()

    def validation_step(self, batch: dict[str, Any], batch_idx: int) -> None:
        self._measure(batch)

    def on_validation_epoch_end(self) -> None:
        self._log_quality("")
        if self.model_ema is None:
            return
        self.on_validation_epoch_start()
        # A context of its own: Lightning leaves that of the validation before this hook.
        with self.ema_scope(), self.trainer.precision_plugin.forward_context():
            for batch in self._validation_batches():
                self._measure(batch)
        self._log_quality("_ema")

    def _validation_batches(self) -> Iterator[Any]:
        counts = self.trainer.num_sanity_val_batches if self.trainer.sanity_checking else self.trainer.num_val_batches
        for batch in islice(self.trainer.val_dataloaders, int(counts[0])):
            yield on_device(self, batch)

    def _measure(self, batch: Mapping[str, Any]) -> None:
        assert self.loss is not None
        step, real = self.position.step, self.pictures(batch)
        made, posterior = self.reconstruct(batch)
        log = self.loss.generator(real, made, posterior, step, None, self.average).log
        log["disc_loss"] = torch.zeros((), device=made.device)
        if self.loss.takes_part(step):
            log |= self.loss.judge(real, made).log
        if int(batch["slot"][0]) < 0:  # it only keeps a rank busy as long as the others
            return
        log |= means(self.metrics, Reconstructed(self, batch, real, made, posterior))
        self._quality.add(real, made, posterior.sample(self._noise(batch, posterior)), log)
        self._drift.add(batch, posterior)

    def _log_quality(self, suffix: str) -> None:
        reduce = self.trainer.strategy.reduce
        metrics = self._quality.metrics(reduce) | self._drift.metrics(reduce, self.device)
        logged = {f"val/{name}{suffix}": value for name, value in metrics.items()}
        self.log_dict({**logged, "step": float(self.position.step)}, sync_dist=True)  # equal on all ranks already

    # Pictures

    def log_images(
        self, batch: dict[str, Any], split: str = "train", N: int = 8, sample: bool = True, use_ema_scope: bool = True
    ) -> dict[str, Tensor]:
        """Pictures of the first N examples of a batch: see `autoencoder_preview.log_images`."""
        return autoencoder_preview.log_images(self, batch, N, sample, use_ema_scope)

    def sample_prompts(self, prompts: list[str], seeds: list[int], **how: Any) -> Tensor:
        raise autoencoder_preview.no_prompts()

    # Checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint["start_of_drift"] = self._drift.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        self._drift.load_state_dict(checkpoint.get("start_of_drift", {}))
