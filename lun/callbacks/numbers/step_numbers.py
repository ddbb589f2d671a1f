"""Gradients before they are clipped, and what a step does to the weights, by part of the networks."""

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from ldm.diffusion.number_limits import FROM_ONE, require_limits
from ldm.errors import Fault
from ldm.lightning_classes import Callback, LightningModule, Trainer
from ldm.training.split_weights import SplitWeights, joined
from lun.callbacks.numbers.example_numbers import require_logs
from lun.loop.contract import model_of, step_of

SAMPLE = 1 << 16
"""Of a larger part so many weights are looked at, evenly spread."""

Weights = Mapping[str, list[Tensor]]


class StepNumbers(Callback):
    """What both callbacks here share: which weights are of which part, and when a log is due.

    words  of a parameter's name that name its part: two make `unet.down_blocks`, three `unet.down_blocks.0`
    """

    limits = {"words": FROM_ONE}
    only_looks = True

    def __init__(self, words: int = 2) -> None:
        require_limits(type(self).__name__, self.limits, {"words": words})
        self.words = words

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        require_logs(self, trainer)
        if trainer.strategy.handles_gradient_accumulation:
            name = type(self).__name__
            why = "it keeps gradients and the weights that are stepped to itself"
            raise Fault("CFG08", f"{name} has no effect under DeepSpeed", where="lightning.callbacks", why=why)

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        self._logged_at = step_of(pl_module)
        self._names = {id(weight): name for name, weight in pl_module.optimized_weights().items()}

    def parts(self, optimizers: Iterable[Optimizer]) -> dict[str, list[Tensor]]:
        """The weights that train, by part."""
        found: dict[str, list[Tensor]] = {}
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for weight in group["params"]:
                    name = self._names.get(id(weight), "others")
                    found.setdefault(".".join(name.split(".")[: self.words]), []).append(weight)
        return found

    def due(self, trainer: Any, step: int) -> bool:
        return step % trainer.log_every_n_steps == 0

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = step_of(pl_module)
        if step == self._logged_at or not self.due(trainer, step):
            return
        self._logged_at = step
        if logged := self.numbers(trainer, pl_module):
            for logger in trainer.loggers:
                logger.log_metrics(logged, step)

    def numbers(self, trainer: Any, pl_module: Any) -> dict[str, float]:
        """What to log of the step that was completed. Collective."""
        raise NotImplementedError


class GradientNorms(StepNumbers):
    """Logs every `trainer.log_every_n_steps` optimizer steps, of the steps since the last log:

    train/grad_norm      mean 2-norm of all gradients before clipping
    train/grad_norm_max  the largest
    train/grad_clipped   share of the steps that were clipped, 0 to 1, where `gradient_clip_val` limits the norm
    grad_norm/PART       norm of each part of the networks, in the step that is logged

    An autoencoder's discriminator, which has an optimizer of its own, is logged as `train/grad_norm_2`. Parts are not
    measured of steps within the backward pass (`FusedBackward`), which leave no gradients to measure.
    """

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        super().on_train_start(trainer, pl_module)
        self._norms: list[list[Tensor | float]] = [[] for _ in trainer.optimizers]
        self._copies = 1
        self._of_parts: dict[str, Tensor] = {}

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        number = next(i for i, one in enumerate(trainer.optimizers) if one is optimizer)
        known = model_of(pl_module).gradient_norm.known
        gradients = [w.grad for group in optimizer.param_groups for w in group["params"] if w.grad is not None]
        if not gradients and known is None:
            return
        self._copies = _copies(gradients[0], trainer.world_size) if gradients else trainer.world_size
        if known is not None and known.optimizer is optimizer:
            self._norms[number].append(known.norm.float() if known.value is None else known.value)
        else:
            self._norms[number].append(_norm(gradients))
        if gradients and self.due(trainer, step_of(pl_module) + 1):
            for part, weights in self.parts([optimizer]).items():
                own = [weight.grad for weight in weights if weight.grad is not None]
                self._of_parts[part] = _norm(own) if own else torch.zeros((), device=gradients[0].device)

    def numbers(self, trainer: Any, pl_module: Any) -> dict[str, float]:
        taken, self._norms = self._norms, [[] for _ in self._norms]
        parts, self._of_parts = self._of_parts, {}
        flat = [norm for norms in taken for norm in norms] + [*parts.values()]
        if not flat:
            return {}
        found = iter(self._over_ranks(flat, trainer, pl_module.device))
        logged: dict[str, float] = {}
        for number, norms in enumerate(taken):
            own = [norm for norm in islice(found, len(norms)) if math.isfinite(norm)]
            logged |= _of_norms(own, _limit(pl_module), f"_{number + 1}" if number else "")
        return logged | {f"grad_norm/{part}": norm for part, norm in zip(parts, found, strict=True)}

    def _over_ranks(self, norms: list[Tensor | float], trainer: Any, device: torch.device) -> list[float]:
        """Norms over all ranks, of which each knows its part or all: the one read. Collective."""
        if all(isinstance(norm, float) for norm in norms) and trainer.world_size == 1:
            return norms  # type: ignore[return-value]
        squares = torch.stack([torch.as_tensor(norm, dtype=torch.float32, device=device) for norm in norms]).square()
        if trainer.world_size > 1:
            squares = trainer.strategy.reduce(squares / self._copies, reduce_op="sum")
        return [math.sqrt(square) for square in squares.tolist()]


class WeightChanges(StepNumbers):
    """Logs every `trainer.log_every_n_steps` optimizer steps, of that step, for each part of the networks:

    update_ratio/PART  norm of what the step changed over the norm of the weights: above 1e-2 it is large, below 1e-5
                       next to nothing is learned
    moved/PART         share of the weights that changed at all, 0 to 1: in bfloat16 small changes are rounded away

    Of a part of more than 65,536 weights so many are looked at, evenly spread.
    """

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        super().on_train_start(trainer, pl_module)
        self._before: dict[str, Tensor] = {}

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if self.due(trainer, step_of(pl_module) + 1) and not self._before:
            self._before = _samples(self.parts(trainer.optimizers), model_of(pl_module).split_weights)

    def numbers(self, trainer: Any, pl_module: Any) -> dict[str, float]:
        before, self._before = self._before, {}
        if not before:
            return {}
        after = _samples(self.parts(trainer.optimizers), model_of(pl_module).split_weights)
        sums = torch.stack([_change(old, after[part]) for part, old in before.items()])
        if trainer.world_size > 1:  # copies on several ranks weigh alike in what follows
            sums = trainer.strategy.reduce(sums, reduce_op="sum")
        logged = {}
        for part, (change, norm, moved, count) in zip(before, sums.tolist(), strict=True):
            logged[f"moved/{part}"] = moved / max(count, 1)
            if norm:
                logged[f"update_ratio/{part}"] = math.sqrt(change / norm)
        return logged


def _of_norms(norms: list[float], limit: float | None, which: str) -> dict[str, float]:
    if not norms:
        return {}
    logged = {f"train/grad_norm{which}": sum(norms) / len(norms), f"train/grad_norm_max{which}": max(norms)}
    if limit:
        logged[f"train/grad_clipped{which}"] = sum(norm > limit for norm in norms) / len(norms)
    return logged


def _limit(model: Any) -> float | None:
    """The norm that gradients are clipped to; None where none are, or each by its value."""
    by_value = "value" in (model.trainer.gradient_clip_algorithm, getattr(model, "gradient_clip_algorithm", None))
    limit: float | None = None if by_value else model.clips_at()
    return limit


def _held(tensor: Any) -> Tensor:
    """What this rank holds of a tensor that is spread over ranks."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _copies(tensor: Any, ranks: int) -> int:
    """How many ranks hold the same part of a tensor."""
    if not hasattr(tensor, "to_local"):
        return ranks
    sides = zip(tensor.placements, tensor.device_mesh.shape, strict=True)
    return math.prod(side for placement, side in sides if placement.is_replicate())


def _norm(gradients: list[Any]) -> Tensor:
    return get_total_norm([_held(gradient).detach() for gradient in gradients]).float()


def _samples(parts: Weights, split: SplitWeights) -> dict[str, Tensor]:
    """Copies of evenly spread weights of each part, of this rank, (n,) float32; of those that are stepped in fp32."""
    return {part: _sample(weights, split) for part, weights in parts.items()}


def _sample(weights: list[Any], split: SplitWeights) -> Tensor:
    every = max(1, sum(_held(weight).numel() for weight in weights) // SAMPLE)
    return torch.cat([_numbers(weight, every, split.lower_half(weight)) for weight in weights])


def _numbers(weight: Any, every: int, low: Tensor | None) -> Tensor:
    some = _held(weight).detach().reshape(-1)[::every]
    return some.float() if low is None else joined(some, low.reshape(-1)[::every])


def _change(old: Tensor, new: Tensor) -> Tensor:
    """Squared norms of the change and of the weights, how many moved, and of how many: (4,)."""
    return torch.stack(
        [(new - old).square().sum(), old.square().sum(), (new != old).sum().float(), old.new_tensor(len(old))]
    )
