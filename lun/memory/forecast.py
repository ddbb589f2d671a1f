"""A training step on fake tensors, which have shapes and lifetimes but no memory: what it would take on a card."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, cast

import torch
from lightning.pytorch.plugins.precision import Precision
from torch import Tensor, nn

from ldm.admission import admitted
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.sampling.guidance import Guidance, guided
from ldm.ema.lit_ema import LitEma
from ldm.ema.schedule_free import is_schedule_free
from ldm.ema.tracks import power_tracks
from ldm.ema.trailing_mean import track_of
from ldm.errors import Fault
from ldm.models.diffusion.ddpm import DDPM
from ldm.models.diffusion.inpainting import KEPT
from ldm.models.diffusion.preview import previewing
from ldm.modules.meta_init import give_memory
from ldm.modules.rounding import rounded_step
from ldm.torch_internals import DataDependentOutputException, FakeTensorMode
from ldm.training.quantised import quantise
from ldm.training.steps_in_backward import StepsInBackward
from ldm.util import Recipe, instantiate_from_config
from lun.callbacks.compute.fused_backward import FusedBackward
from lun.data.cache.cache_settings import Cache
from lun.memory.as_on_cuda import normalise_in_full, sizes_of, update_all_at_once
from lun.memory.by_shape import ByShape
from lun.memory.eight_bit import EightBit, stands_for
from lun.memory.elsewhere import fill_caches, keep_elsewhere, moments_of, staying_on
from lun.memory.live import LiveBytes
from lun.run.build_model import build_model
from lun.strategies.combinations import strategy_kind
from lun.strategies.fused import steps_fused
from lun.strategies.half import MasterWeights, RoundedWeights
from lun.strategies.precision import policy_of


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


def forecast(config: Mapping[str, Any]) -> Forecast:
    """The memory that a run of this configuration takes on one device. Raises `Fault` CFG03 for other kinds of models.

    The device is a card, or the CPU where `lightning.trainer.accelerator` says so, whose operations differ a little.
    Counted are the tensors that are alive; not the context of the driver, libraries' workspaces and what the allocator
    rounds up.
    """
    trainer = (config.get("lightning") or {}).get("trainer") or {}
    precision = policy_of(trainer.get("precision")).plugin("cpu")
    device = "cpu" if trainer.get("accelerator") == "cpu" else "cuda"
    model = build_model(config)  # with real tensors: an objective looks at its noise levels
    if not isinstance(model, DDPM):
        raise Fault("CFG03", "memory is predicted for diffusion models", where="model.target")
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        build(model)
        if device == "cuda":
            normalise_in_full(model)
        precision.convert_module(model)
        keep_elsewhere(model, config)
        live = stack.enter_context(LiveBytes())
        beside = lower_halves(precision)
        live.adopt([staying_on(device, model), beside])
        load = load_of(config)
        caches = fill_caches(model, live, load, device) if load.cached else 0
        recipe = with_its_kernel(model.optimizer_config, trainer, device)
        if isinstance(precision, MasterWeights) and load.accumulate > 1:
            precision.weights.sum_gradients()
        fixed = sizes_of([*staying_on(device, model), *beside])
        rehearsal = Rehearsal(model, live, precision, load, recipe, device)
        rehearsal.fused = fuses(config)
        return rehearsal.run(fixed, caches)


def build(model: DDPM) -> None:
    """The networks of a model with the memory that they take on a card; nothing is read."""
    networks = {name: part.build_on_meta() for name, part in model.part_recipes().items()}
    for network in networks.values():
        give_memory(network)
    model.adopt(networks)
    for network in networks.values():
        quantise(network)
    model.train()


def load_of(config: Mapping[str, Any]) -> Load:
    """Batch and sides that a configuration asks for; of several sizes the largest."""
    data = config["data"]["params"]
    train = data.get("train") or {}
    sets = [one for one in (train.get("sets") or {"": train}).values() if one is not None]
    sides = [(one.get("params") or {}).get("size") or 512 for one in sets]
    resolutions = (data.get("buckets") or {}).get("resolutions") or sides
    callbacks = (config.get("lightning") or {}).get("callbacks") or {}
    samples = ((callbacks.get("image_logger") or {}).get("params") or {}).get("max_images", 4)
    shown = 0 if callbacks.get("image_logger") is None else samples
    side = max(resolutions)
    cache = Cache.read(data.get("cache"))
    text = cache is not None and cache.text is not False
    accumulate = ((config.get("lightning") or {}).get("trainer") or {}).get("accumulate_grad_batches") or 1
    return Load(data.get("batch_size", 1), side, side, shown, cache is not None, text, accumulate)


class Rehearsal:
    """Two steps and the pictures between them, on fake tensors."""

    def __init__(
        self, model: DDPM, live: LiveBytes, precision: Precision, load: Load, optimizer: Recipe, device: str
    ) -> None:
        self.model = model
        self.optimizer_config = optimizer
        self.device = device
        self.live = live
        self.load = load
        self.precision = precision
        self.fused = False

    def run(self, weights: int, caches: int) -> Forecast:
        """In the order of training: gradients are freed as soon as the optimizer has used them, and not before."""
        trained = [parameter for _, parameter in self.model.trained_parameters()]
        optimizer = optimizer_of(self.model, self.optimizer_config, self.device)
        if self.fused:
            optimizer = self.fuse(optimizer, trained)
        peaks: dict[str, int] = {}
        for _ in range(2):  # states appear at the first step
            with self.live.phase() as peak:
                for _ in range(min(self.load.accumulate, 2)):  # later ones find what the second does
                    self.micro_batch()
                peaks["step"] = peak()
            with self.live.phase() as peak:
                optimizer = self.update(optimizer, trained)
                peaks["update"] = peak()
            optimizer.zero_grad()
        with self.live.phase() as peak:
            self.samples()
            peaks["samples"] = peak()
        states = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
        summed = sizes_of(lower_halves(self.precision)) if self.load.accumulate > 1 else 0
        gradients = 0 if self.fused else sizes_of(trained) + summed
        average = copies_of_average(self.model, is_schedule_free(optimizer)) * sum(4 * p.numel() for p in trained)
        on_cpu = self.device == "cpu"
        return Forecast(weights, gradients, sizes_of(states), **peaks, average=average, caches=caches, on_cpu=on_cpu)

    def micro_batch(self) -> None:
        """A forward and a backward pass; gradients of the one before are there."""
        model, count = self.model, self.load.batch
        draws = BatchDraws(0, range(count))
        with self.precision.forward_context():
            batch = self.batch()
            x0 = model.encode(batch, draws)
            loss = model.losses(x0, model.condition(batch, None, x0), draws, batch).weighted.mean()
        loss.backward()

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

    def samples(self) -> None:
        """One step of the solver with guidance, and decoding."""
        model, count = self.model, self.load.samples
        if not count:
            return
        assert model.model is not None
        with previewing(model), self.precision.forward_context():
            noise = torch.empty(count, model.channels, model.image_size, model.image_size)
            network: Any = model.model
            conditionings = model.condition_on([""] * count), model.unconditional([""] * count)
            predict = guided(network, *conditionings, Guidance(2.0), model.objective.path, model.objective.prediction)
            predict(noise, torch.zeros(count, dtype=torch.int64))
            model.decode(noise)

    def batch(self) -> dict[str, Any]:
        load = self.load
        batch: dict[str, Any] = {"caption": [""] * load.batch, "slot": list(range(load.batch))}
        if load.cached:
            batch["moments"] = moments_of(self.model, load.batch, load)
        else:
            batch[self.model.first_stage_key] = torch.empty(load.batch, load.height, load.width, 3)
        if getattr(self.model, "mask", None):  # drawn by looking at values, so it is given
            pixels = self.model.first_stage_model.downsampling
            batch[KEPT] = torch.empty(load.batch, 1 + self.model.channels, load.height // pixels, load.width // pixels)
        return batch


def fuses(config: Mapping[str, Any]) -> bool:
    """Whether a configuration steps within the backward pass."""
    callbacks = (config.get("lightning") or {}).get("callbacks") or {}
    return any(admitted(recipe["target"]) is FusedBackward for recipe in callbacks.values() if recipe)


def lower_halves(precision: Precision) -> list[Tensor]:
    """What lies beside bfloat16 weights for their steps; nothing in most precisions."""
    return precision.weights.lower_halves() if isinstance(precision, MasterWeights) else []


def copies_of_average(model: DDPM, schedule_free: bool) -> int:
    """How many copies of the weights the averages of a configuration keep at most."""
    if not model.use_ema or schedule_free:
        return 0
    usual = {"total_steps": 1_000_000, "examples_per_step": 1}  # neither changes how many there are
    ema: LitEma = instantiate_from_config(model.ema_config, {"number": nn.Parameter(torch.zeros(1))}, **usual)
    main = track_of(ema.profile, 0)
    tracks = {id(track): track for track in (main, *power_tracks(main, ema.widths).values())}
    return sum(track.copies for track in tracks.values())


def with_its_kernel(optimizer: Recipe, trainer: Mapping[str, Any], device: str) -> Recipe:
    """The recipe as a run on "cuda" or "cpu" builds it."""
    policy, strategy = policy_of(trainer.get("precision")), strategy_kind(trainer.get("strategy"))
    fused = {"fused": True} if steps_fused(optimizer, device, strategy, policy.name) else {}
    return {**optimizer, "params": {**(optimizer.get("params") or {}), **fused}}


def optimizer_of(model: DDPM, recipe: Recipe, device: str) -> torch.optim.Optimizer:
    """The optimizer of the recipe as it would be on the device, or one that takes the same memory."""
    groups = [group.for_optimizer(model.learning_rate) for group in model.trained_groups()]
    target = str(recipe["target"])
    if stands_for(target):
        return EightBit(groups, target)
    optimizer: torch.optim.Optimizer = instantiate_from_config(recipe, groups, lr=model.learning_rate)
    if device == "cuda":
        update_all_at_once(optimizer)
    if is_schedule_free(optimizer):
        cast(Any, optimizer).train()
    return optimizer
