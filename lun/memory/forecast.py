"""A training step on fake tensors, which have shapes and lifetimes but no memory: what it would take on a card."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from ldm.errors import Fault
from ldm.models.autoencoder import AutoencoderKL
from ldm.models.diffusion.ddpm import DDPM
from ldm.torch_internals import FakeTensorMode
from ldm.util import Recipe
from lun.data.cache.cache_settings import Cache
from lun.memory.as_on_cuda import normalise_in_full, sizes_of
from lun.memory.autoencoder_rehearsal import AutoencoderRehearsal
from lun.memory.diffusion_rehearsal import DiffusionRehearsal
from lun.memory.elsewhere import fill_caches, keep_elsewhere, staying_on
from lun.memory.live import LiveBytes
from lun.memory.named_callbacks import fuses
from lun.memory.predicted_steps import Forecast, Load, Rehearsal, lower_halves
from lun.run.build_model import build_model
from lun.strategies.combinations import strategy_kind
from lun.strategies.fused import steps_fused
from lun.strategies.half import MasterWeights
from lun.strategies.precision import policy_of

REHEARSALS: Mapping[type, type[Rehearsal]] = {DDPM: DiffusionRehearsal, AutoencoderKL: AutoencoderRehearsal}


def forecast(config: Mapping[str, Any]) -> Forecast:
    """The memory that a run of this configuration takes on one device. Raises `Fault` CFG03 for other kinds of models.

    The device is a card, or the CPU where `lightning.trainer.accelerator` says so, whose operations differ a little.
    Counted are the tensors that are alive; not the context of the driver, libraries' workspaces and what the allocator
    rounds up, nor what `named_callbacks.uncounted` names.
    """
    trainer = (config.get("lightning") or {}).get("trainer") or {}
    precision = policy_of(trainer.get("precision")).plugin("cpu")
    device = "cpu" if trainer.get("accelerator") == "cpu" else "cuda"
    model = build_model(config)  # with real tensors: an objective looks at its noise levels
    kind = rehearsal_of(model)
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        kind.build(model)
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
        rehearsal = kind(model, live, precision, load, recipe, device)
        rehearsal.fused = fuses(config)
        return rehearsal.run(fixed, caches)


def rehearsal_of(model: object) -> type[Rehearsal]:
    """How a step of a model is rehearsed. Raises `Fault` CFG03 for other kinds of models."""
    found = next((rehearsal for kind, rehearsal in REHEARSALS.items() if isinstance(model, kind)), None)
    if found is None:
        raise Fault("CFG03", "memory is predicted for diffusion models and autoencoders", where="model.target")
    return found


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


def with_its_kernel(optimizer: Recipe, trainer: Mapping[str, Any], device: str) -> Recipe:
    """The recipe as a run on "cuda" or "cpu" builds it."""
    policy, strategy = policy_of(trainer.get("precision")), strategy_kind(trainer.get("strategy"))
    fused = {"fused": True} if steps_fused(optimizer, device, strategy, policy.name) else {}
    return {**optimizer, "params": {**(optimizer.get("params") or {}), **fused}}
