"""What every trained model shares: optimizer and schedule, the step counter, the EMA and the layout on disk."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ldm.diffusion.draws import BatchDraws, key
from ldm.ema.checkpoint_state import places
from ldm.ema.lit_ema import LitEma
from ldm.ema.schedule_free import ScheduleFree, is_schedule_free, not_beside_ema
from ldm.ema.start import refuse_beside_law
from ldm.files.lazy_tensor import write_through
from ldm.models.averages import restore
from ldm.models.base_weights import ENTRY, BaseWeights
from ldm.models.logged_steps import LogsSteps
from ldm.models.losses_by_set import LossesBySet
from ldm.models.model_parts import ForwardUnit, TrainingPlan, translate
from ldm.models.pixels import for_device, in_numbers, sent
from ldm.models.run_context import RunContext
from ldm.position import Position
from ldm.training.clipping import GradientNorm, clipped, require_clippable
from ldm.training.frozen_since import leave_out_idle
from ldm.training.loss_scale import LossScale
from ldm.training.schedule import with_horizon
from ldm.util import Recipe, instantiate_from_config

EMA_PREFIX = "model_ema."
LIT_EMA: Recipe = {"target": "ldm.modules.ema.LitEma", "params": {}}


class TrainedModel(LogsSteps):
    """A model that counts optimizer steps, averages its weights and reads and writes CompVis' layout.

    monitor           the metric by which checkpoints are compared
    use_ema, ema_decay, ema_config  keep an average of the trained weights; `ema_decay` sets its decay alone,
                      `ema_config` all of it. A schedule-free optimizer has an average of its own, and takes no other
    optimizer_config  any `f(params, lr=...)`; AdamW when absent
    scheduler_config  any `step -> factor` on the learning rate, or a class of torch's; constant when absent
    training_config   what trains, and with which settings: rules over names (`ldm.training.rules.Rules`)
    adapter_config    adds small networks to layers, which train in their place (`ldm.training.adapters.PlacesAdapters`)
    base_config       quantises the frozen matrices below adapters: `ldm.adapters.Nf4`, `ldm.adapters.Int8`
    ckpt_path, ignore_keys  weights to start from (not training state); `ignore_keys` are prefixes to leave out of it
    """

    by_hand: tuple[str, ...] = ()
    """Arguments of the Trainer that this model carries out itself, since Lightning does not where it steps by hand."""
    heeds: frozenset[str] = frozenset()
    """What one of several data sets may ask for its examples that this model carries out, as keys of the set."""
    leaves_parameters_unused = False
    """Whether a backward pass may leave trained parameters without a gradient, which DDP has to know."""

    def __init__(
        self,
        monitor: str | None = None,
        use_ema: bool = True,
        ema_decay: float | None = None,
        ema_config: Recipe | None = None,
        optimizer_config: Recipe | None = None,
        scheduler_config: Recipe | None = None,
        training_config: Recipe | None = None,
        adapter_config: Recipe | None = None,
        base_config: Recipe | None = None,
        ckpt_path: str | None = None,
        ignore_keys: tuple[str, ...] | list[str] = (),
    ) -> None:
        super().__init__(optimizer_config, scheduler_config, training_config, adapter_config, base_config)
        self.monitor = monitor
        self.use_ema = use_ema
        self.ema_config: Recipe = ema_config or LIT_EMA
        if ema_decay is not None:
            refuse_beside_law(self.ema_config)
            params = {**(self.ema_config.get("params") or {}), "decay": ema_decay}
            self.ema_config = {**self.ema_config, "params": params}
        self.ckpt_path = ckpt_path
        self.ignore_keys = tuple(ignore_keys)
        self._resumed = False
        self.position = Position()
        self.base, self.by_set = BaseWeights(), LossesBySet()
        self.model_ema: LitEma | ScheduleFree | None = None
        self._stored_ema: dict[str, Any] | None = None
        self._loss_scale = LossScale(None)
        self.gradient_norm = GradientNorm()
        self._planned: TrainingPlan | None = None

    # What the launcher asks before training

    def require_weights(self, files: bool = True) -> None:
        """Raise `Fault` for weights that are missing, as is known without whole files, or without any (not `files`)."""

    def side_unit(self) -> int:
        """The number of pixels that sides of pictures have to be multiples of."""
        return 1

    def training_plan(self) -> TrainingPlan:
        """The networks that training will build, and what of them trains: built for that once, without memory."""
        self._planned = self._planned or self.plan_training()
        return self._planned

    def plan_training(self) -> TrainingPlan:
        """What `training_plan` keeps."""
        return TrainingPlan()

    @classmethod
    def refuse_trainer(cls, trainer: Mapping[str, Any]) -> None:
        """Raise `Fault` for arguments of the Trainer under which models of this class cannot train."""

    def begin(self, run: RunContext) -> None:
        """Take what `run` settled, before any network is built. Raises the `Fault` of `with_horizon`."""
        self.seed, self.learning_rate, self._resumed = run.seed, run.learning_rate, run.resumed
        self.fused, self._planned = run.fused, None
        if self.scheduler_config is not None:
            self.scheduler_config = with_horizon(self.scheduler_config, run.max_steps)
        self.training_rules = [rule.with_horizon(run.max_steps) for rule in self.training_rules]
        for name in self.by_hand:
            if run.trainer.get(name) is not None:
                setattr(self, name, run.trainer[name])

    def expect_checkpoint(self) -> None:
        """All weights will come from a checkpoint of this model, so that `configure_model` reads none to start from.

        To be drawn from or merged, not to train: a base comes as its file holds it, unquantised.
        """
        self._resumed = True
        self.quantisation = self._planned = None

    @property
    def resumed(self) -> bool:
        """Whether all weights come from a checkpoint: as `begin` or `expect_checkpoint` said."""
        return self._resumed

    # Parts and their names on disk

    def disk_parts(self) -> dict[str, nn.Module]:
        """The parts whose names on disk differ from those in memory: {prefix in memory: part}.

        On disk the prefix is the same, unless the part says another one as `disk_prefix`.
        """
        raise NotImplementedError

    def to_disk(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Names in memory -> names in a CompVis checkpoint, for weights of any subset of the parts."""
        return translate(self.disk_parts(), state, "to_disk")

    def from_disk(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Names in a CompVis checkpoint -> names in memory."""
        return translate(self.disk_parts(), state, "from_disk")

    def forward_units(self) -> list[ForwardUnit]:
        """The modules that hold all trained parameters and whose forward is called; by default the model's children."""
        children = [child for child in self.children() if any(p.requires_grad for p in child.parameters())]
        return [ForwardUnit(child) for child in children]

    # Steps

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """A batch with what its device needs of it there, and the rest where it was."""
        if not isinstance(batch, dict):
            return super().transfer_batch_to_device(batch, device, dataloader_idx)
        tensors, others = sent(for_device(batch), device)
        if others:
            tensors |= super().transfer_batch_to_device(others, device, dataloader_idx)
        return {**batch, **tensors}

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """The batch on the device, where the bytes of its pictures and masks become numbers."""
        return in_numbers(batch, self.trainer.precision_plugin.convert_input)

    def draws(self, batch: Mapping[str, Any]) -> BatchDraws:
        """The random draws of a batch: of training, or of validation, which no training draw ever meets."""
        seed = self.seed if self.training else key(self.seed, "validation")
        return BatchDraws(seed, batch["slot"])

    def seed_networks(self, batch_idx: int) -> None:
        """Key what is drawn inside networks (dropout) by (seed, step, micro-batch, rank): a resume repeats it."""
        micro = batch_idx % self.trainer.accumulate_grad_batches
        seed = key(self.seed, "networks", self.position.step, micro, self.global_rank)
        # Not torch.manual_seed: it costs 200 times as much, since it also visits devices that are not in use.
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index or 0].manual_seed(seed)

    def window_completed(self, examples: int) -> None:
        """Count a completed window of `examples` examples over all ranks, update the EMA, and log what is due."""
        self.position.advance(examples)
        self.step_metrics.keep(self._loss_scale.watch())
        if self.model_ema is not None:
            self.model_ema.update(self.position.step)
            if self.model_ema.stall_ms is not None:
                self.step_metrics.keep({"ema/stall_ms": self.model_ema.stall_ms})
        self.log_step()

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Step, and free the gradients now: Lightning would keep them beside the next forward pass's activations.

        A strategy that accumulates by itself comes here for every micro-batch, and frees them when the window is full.
        """
        super().optimizer_step(*args, **kwargs)
        if not self.trainer.strategy.handles_gradient_accumulation:
            epoch, batch_idx, optimizer = args[:3]
            self.optimizer_zero_grad(epoch, batch_idx, getattr(optimizer, "optimizer", optimizer))  # unwrapped

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip by the norm that was measured right before, where there is one; a norm within the limit costs nothing.

        What else a strategy or a precision does about clipping is left to it.
        """
        known, self.gradient_norm.known = self.gradient_norm.known, None
        ours = type(self).on_before_optimizer_step is TrainedModel.on_before_optimizer_step
        by_norm = gradient_clip_algorithm in (None, "norm")
        usable = known if by_norm and ours and not self.split_weights else None
        if not (gradient_clip_val and clipped(optimizer, usable, gradient_clip_val, self.trainer.precision_plugin)):
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Weights that the EMA still copies from an accelerator must not change under it."""
        if self.model_ema is not None:
            self.model_ema.gate()

    # EMA

    def on_fit_start(self) -> None:
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        self._loss_scale = LossScale(scaler)
        require_clippable(self.trainer.optimizers, self.clips_at(), scaler is not None)
        free = any(map(is_schedule_free, self.trainer.optimizers))
        if free and self.use_ema:
            raise not_beside_ema(str(self.optimizer_config["target"]))
        if free or self.use_ema:
            self._build_ema()

    def clips_at(self) -> float | None:
        """What gradients are clipped to, if at all."""
        return self.trainer.gradient_clip_val

    def _build_ema(self) -> None:
        extra: dict[str, Any] = {
            "total_steps": self.trainer.max_steps if self.trainer.max_steps > 0 else None,
            "examples_per_step": getattr(getattr(self.trainer, "datamodule", None), "global_batch", None),
        }
        if any(map(is_schedule_free, self.trainer.optimizers)):
            self.model_ema = ScheduleFree(self, self.trainer.optimizers)
        else:
            spread = getattr(self.trainer.strategy, "ema_source", None)  # of weights that are spread over ranks
            source = spread or self.split_weights.ema_source(self)
            self.model_ema = instantiate_from_config(self.ema_config, source, **extra)
        if self._stored_ema is not None:
            restore(self.model_ema, self._stored_ema, self.position.step, self._ema_names, self.to_disk)
            self._stored_ema = None

    def _ema_names(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """CompVis averages `self.model`, so its names do not begin with `model.`.

        A part that joins tensors on disk keeps its names in memory: the EMA is loaded into views, never into copies.
        """
        joined = tuple(p for p, part in self.disk_parts().items() if getattr(part, "joins_tensors", False))
        own = {name: tensor for name, tensor in state.items() if name.startswith(joined)}
        disk = self.to_disk({name: tensor for name, tensor in state.items() if name not in own})
        return {name.removeprefix("model."): tensor for name, tensor in disk.items()} | own

    def take_average(self, state: Mapping[str, Tensor]) -> int:
        """Replace trained weights by their averages in a checkpoint's `state_dict`; returns how many were there."""
        weights: dict[str, Tensor] = dict(self.trained_parameters())
        flat = {name: weight.detach().reshape(-1) for name, weight in weights.items()}  # copies where memory is not so
        renamed = places(flat, lambda rows: self._ema_names({n: row.view(weights[n].shape) for n, row in rows.items()}))
        named = {EMA_PREFIX + name.replace(".", ""): place for name, place in renamed.items()}
        averaged = {name: place for name, place in named.items() if name in state}
        with torch.no_grad():
            for name, place in averaged.items():
                write_through(place, state[name])
            for name, weight in weights.items():
                weight.copy_(flat[name].view(weight.shape))
        return len(averaged)

    @contextmanager
    def ema_scope(self) -> Iterator[None]:
        """Within it the parameters hold the averaged weights (one swap in, one out); without an EMA nothing happens."""
        with self.model_ema.ema_scope() if self.model_ema is not None else nullcontext():
            yield

    # Checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Raw weights under CompVis' names beside the EMA's, which are no part of the module's own state."""
        state = checkpoint["state_dict"]
        ema = self.model_ema
        state = state | (ema.raw_state() if ema is not None and ema.swapped else self.split_weights.whole(self))
        state = self.to_disk(self.base.left_out_of(state))
        if ema is not None:
            averaged = ema.state_dict(rename=self._ema_names)
            state |= {EMA_PREFIX + name: tensor for name, tensor in averaged.items()}
            checkpoint["ema"] = ema.resume_state(rename=self.to_disk)
        checkpoint["state_dict"] = state
        checkpoint["optimizer_settings"] = self._settings
        if self.base.given:
            checkpoint[ENTRY] = self.base.to_checkpoint()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state: dict[str, Tensor] = checkpoint["state_dict"]
        averaged = {k.removeprefix(EMA_PREFIX): v for k, v in state.items() if k.startswith(EMA_PREFIX)}
        rest = {k: v for k, v in state.items() if not k.startswith(EMA_PREFIX)}
        own = self.state_dict()
        # Files of 2022 hold the noise schedule too, as constants without a dot in their names.
        rest = self.from_disk(rest)
        checkpoint["state_dict"] = {k: v for k, v in rest.items() if k in own or "." in k}
        if ENTRY in checkpoint:
            self.base.require(checkpoint[ENTRY], checkpoint["state_dict"], own, "the checkpoint")
            self.strict_loading = False  # all that may be missing has been read already
        self._stored_ema = {"weights": averaged, "resume": checkpoint.get("ema")}
        leave_out_idle(checkpoint, self, self.trained_groups)
        self._stored_settings = checkpoint.get("optimizer_settings", [])
        if self.model_ema is not None:  # strategies that restore after set-up built it already
            self._build_ema()
