"""Two steps and the pictures of a run, on tensors without memory: what of them all kinds of models share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, NamedTuple, cast

import torch
from lightning.pytorch.plugins.precision import Precision
from torch import Tensor, nn

from ldm.ema.lit_ema import LitEma
from ldm.ema.schedule_free import is_schedule_free
from ldm.ema.tracks import power_tracks
from ldm.ema.trailing_mean import track_of
from ldm.models.base import TrainedModel
from ldm.modules.rounding import rounded_step
from ldm.torch_internals import DataDependentOutputException
from ldm.training.groups import Group
from ldm.training.steps_in_backward import StepsInBackward
from ldm.util import Recipe, instantiate_from_config
from lun.memory.as_on_cuda import sizes_of, update_all_at_once
from lun.memory.by_shape import ByShape
from lun.memory.eight_bit import EightBit, stands_for
from lun.memory.live import LiveBytes
from lun.strategies.half import MasterWeights, RoundedWeights


@dataclass(frozen=True)
class Forecast:
    """Bytes on the device: what is there all the time, and the peak of each part of a run.

    caches   filling the caches ahead of training, the text encoder there too; 0 without
    step     encoding, forward and backward pass
    update   the optimizer's step
    samples  pictures of the image logger
    average  in main memory: the EMA, all of its widths and blocks; a schedule-free optimizer has it among its states
    on_cpu   whether the device is the CPU, whose memory is where the average lies as well
    """

    weights: int
    gradients: int
    optimizer: int
    step: int
    update: int
    samples: int
    average: int
    caches: int = 0
    on_cpu: bool = False

    @property
    def peak(self) -> int:
        return max(self.step, self.update, self.samples, self.caches) + (self.average if self.on_cpu else 0)


@dataclass(frozen=True)
class Load:
    """What is put on the card: how many pictures at once, of which sides in pixels, and samples drawn at once; whether
    pictures come as cached moments, and captions as cached states; and how many such batches make a step.
    """

    batch: int
    height: int
    width: int
    samples: int
    cached: bool = False
    cached_text: bool = False
    accumulate: int = 1


class Turn(NamedTuple):
    """The passes of a window for one optimizer, and what that steps."""

    passes: Callable[[], None]
    groups: Sequence[Group]

    @property
    def trained(self) -> list[nn.Parameter]:
        return [parameter for group in self.groups for parameter in group.parameters]


class Rehearsal:
    """Two steps and the pictures between them, on fake tensors."""

    def __init__(
        self, model: TrainedModel, live: LiveBytes, precision: Precision, load: Load, optimizer: Recipe, device: str
    ) -> None:
        self.model = model
        self.optimizer_config = optimizer
        self.device = device
        self.live = live
        self.load = load
        self.precision = precision
        self.fused = False

    @staticmethod
    def build(model: Any) -> None:
        """The networks of a model with the memory that they take on a card; nothing is read."""
        raise NotImplementedError

    def turns(self) -> Sequence[Turn]:
        """What makes a step, in its order."""
        raise NotImplementedError

    def averaged(self) -> Iterator[nn.Parameter]:
        """The weights that are averaged."""
        return (parameter for _, parameter in self.model.trained_parameters())

    def samples(self) -> None:
        """Drawing the pictures of the image logger, if any."""
        raise NotImplementedError

    def run(self, weights: int, caches: int) -> Forecast:
        """In the order of training: gradients are freed as soon as the optimizer has used them, and not before."""
        turns = self.turns()
        optimizers = [optimizer_of(self.model, turn.groups, self.optimizer_config, self.device) for turn in turns]
        if self.fused:
            optimizers[0] = self.fuse(optimizers[0], turns[0].trained)
        for _ in range(2):  # states appear at the first step
            peaks = {"step": 0, "update": 0}
            for number, turn in enumerate(turns):
                with self.live.phase() as peak:
                    turn.passes()
                    peaks["step"] = max(peaks["step"], peak())
                with self.live.phase() as peak:
                    optimizers[number] = self.update(optimizers[number], turn.trained)
                    peaks["update"] = max(peaks["update"], peak())
                optimizers[number].zero_grad()
        with self.live.phase() as peak:
            self.samples()
            peaks["samples"] = peak()
        summed = sizes_of(lower_halves(self.precision)) if self.load.accumulate > 1 else 0
        gradients = 0 if self.fused else max(sizes_of(turn.trained) for turn in turns) + summed
        copies = copies_of_average(self.model, is_schedule_free(optimizers[0]))
        average = copies * sum(4 * parameter.numel() for parameter in self.averaged())
        states = sum(sizes_of(states_of(optimizer)) for optimizer in optimizers)
        on_cpu = self.device == "cpu"
        return Forecast(weights, gradients, states, **peaks, average=average, caches=caches, on_cpu=on_cpu)

    def update(self, optimizer: torch.optim.Optimizer, trained: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer that made its step, or the one that stands for it because it looks at values."""
        step = self.stepping()
        try:
            step(optimizer)
        except DataDependentOutputException:
            optimizer = ByShape(trained, self.optimizer_config)
            step(optimizer)
        return optimizer

    def fuse(self, optimizer: torch.optim.Optimizer, trained: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer, or the one that stands for it, whose parameters each backward pass steps from now on."""
        trained[0].grad = torch.zeros_like(trained[0])
        optimizer = self.update(optimizer, trained)  # whether it looks at values
        optimizer.zero_grad()
        optimizer.state.clear()
        step = self.stepping()
        StepsInBackward(optimizer, lambda _: step(optimizer)).attach()
        return optimizer

    def stepping(self) -> Callable[[torch.optim.Optimizer], object]:
        """How the precision steps an optimizer."""
        if isinstance(self.precision, MasterWeights):
            self.precision.before_step()
            return self.precision.weights.step
        return rounded_step if isinstance(self.precision, RoundedWeights) else methodcaller("step")


def states_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All tensors of its states."""
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]


def lower_halves(precision: Precision) -> list[Tensor]:
    """What lies beside bfloat16 weights for their steps; nothing in most precisions."""
    return precision.weights.lower_halves() if isinstance(precision, MasterWeights) else []


def copies_of_average(model: TrainedModel, schedule_free: bool) -> int:
    """How many copies of the weights the averages of a configuration keep at most."""
    if not model.use_ema or schedule_free:
        return 0
    usual = {"total_steps": 1_000_000, "examples_per_step": 1}  # neither changes how many there are
    ema: LitEma = instantiate_from_config(model.ema_config, {"number": nn.Parameter(torch.zeros(1))}, **usual)
    main = track_of(ema.profile, 0)
    tracks = {id(track): track for track in (main, *power_tracks(main, ema.widths).values())}
    return sum(track.copies for track in tracks.values())


def optimizer_of(model: TrainedModel, trained: Sequence[Group], recipe: Recipe, device: str) -> torch.optim.Optimizer:
    """The optimizer of the recipe as it would be on the device, or one that takes the same memory."""
    groups = [group.for_optimizer(model.learning_rate) for group in trained]
    target = str(recipe["target"])
    if stands_for(target):
        return EightBit(groups, target)
    optimizer: torch.optim.Optimizer = instantiate_from_config(recipe, groups, lr=model.learning_rate)
    if device == "cuda":
        update_all_at_once(optimizer)
    if is_schedule_free(optimizer):
        cast(Any, optimizer).train()
    return optimizer
