"""LitEma: an exponential moving average of a model's weights, kept in fp32 beside it, saved under CompVis' keys."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.modules.ema_profiles import ConstantDecay, Profile, largest_interval
from ldm.modules.ema_shadow import Shadow, all_finite, parked

logger = logging.getLogger(__name__)

Rename = Callable[[dict[str, Tensor]], dict[str, Tensor]]
"""From the model's own names to those on disk: new names for, or reshaped views of, the very tensors it gets."""

_WRAPPERS = frozenset({"_orig_mod", "module", "_checkpoint_wrapped_module"})
_SCALARS = frozenset({"num_updates", "decay"})


class LitEma:
    """Averages the parameters that require a gradient when it is built, once every `update_every` optimizer steps.

    `parameters` is a module or a mapping by name; it is looked up again at each use, so parameters replaced by
    `load_state_dict(assign=True)` are followed, and frozen ones stay tracked. `profile` is the decay law, by default
    `ConstantDecay(decay, warmup)`, which a given one replaces. `update_every` never changes the horizon of the average:
    the decay of an interval is the product of those of its steps. `"auto"` takes the longest harmless interval
    (`largest_interval`, with `total_steps`). The average is one flat fp32 tensor on `device`.

    It is no nn.Module and owns no buffers, so nothing moves it to the GPU or broadcasts it.
    """

    def __init__(
        self,
        parameters: nn.Module | Mapping[str, nn.Parameter],
        decay: float = 0.9999,
        update_every: int | Literal["auto"] = 10,
        warmup: bool = True,
        profile: Profile | None = None,
        device: str = "cpu",
        total_steps: int | None = None,
    ) -> None:
        self.profile = ConstantDecay(decay, warmup) if profile is None else profile
        self._auto = update_every == "auto"
        self.update_every = largest_interval(self.profile, total_steps) if update_every == "auto" else update_every
        if not isinstance(self.update_every, int) or self.update_every < 1:
            raise ValueError(f"update_every must be 'auto' or a number of steps from 1 on, got {update_every!r}")
        self._owner = parameters
        self._names = _canonical_names(name for name, parameter in _named(parameters) if parameter.requires_grad)
        tensors = self._tensors()
        compvis_keys(tensors)
        self._shadow = Shadow(tensors, device)
        self._raw: dict[str, Tensor] | None = None
        self.step = 0
        self.last_update = 0
        self.skipped_nonfinite = 0

    def update(self, step: int) -> None:
        """Tell that optimizer step `step` (counted from 1) is complete; averages if one is due.

        Call it at the end of every accumulation window. Weights with NaN or infinity are skipped and counted in
        `skipped_nonfinite`; the next update then covers both intervals. RuntimeError while the weights are swapped.
        """
        self._refuse_while_swapped("updated")
        if step < self.last_update:
            raise ValueError(f"step {step} lies before step {self.last_update}, which is already averaged in")
        self.step = step
        if step % self.update_every == 0:
            self._average()

    def flush(self, step: int) -> None:
        """Average in the weights of `step` now, whether due or not.

        For the end of training only: done at each checkpoint, the result would depend on how often a run saves.
        """
        self.update(step)
        self._average()

    def reset(self, step: int = 0) -> None:
        """Start over at `step` from the present weights, for example after loading a checkpoint that has no EMA."""
        self._refuse_while_swapped("reset")
        self._shadow.take(self._tensors())
        self.step = self.last_update = step

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Put the averaged weights into the model for the duration; afterwards the raw ones are back bit for bit.

        They come back after an exception or Ctrl-C too. RuntimeError if the weights are swapped already.
        """
        self._refuse_while_swapped("swapped in again")
        tensors = self._tensors()
        raw = parked(tensors, self._shadow.flat.device)
        try:
            self._raw = raw
            self._shadow.give(tensors)
            yield
        finally:
            _write_back(raw, tensors)
            # Freed rather than kept: an update needs no buffer of this size, so it would cost a model's worth for good.
            self._raw = None

    ema_scope = scope

    @property
    def swapped(self) -> bool:
        """Whether the averaged weights are in the model at the moment."""
        return self._raw is not None

    def averaged_state(self) -> dict[str, Tensor]:
        """The average by canonical name: fp32 views, which the next update changes."""
        return dict(self._shadow.views)

    def raw_state(self) -> dict[str, Tensor]:
        """The trained weights by canonical name, also while the averaged ones are in the model.

        Lay them over the model's state in every checkpoint, so that one written during a swap holds the raw weights.
        """
        if self._raw is not None:
            return dict(self._raw)
        return {name: tensor.detach() for name, tensor in self._tensors().items()}

    def state_dict(self, rename: Rename = dict) -> dict[str, Tensor]:
        """CompVis' EMA keys without `model_ema.`: names free of dots (views), `num_updates` (int32, steps), `decay`.

        `decay` is what the law tends to; no reader of ours looks at it.
        """
        decay = math.exp(self.profile.log_beta(2**52 - 1, 2**52))
        scalars = {
            "num_updates": torch.tensor(self.step, dtype=torch.int32),
            "decay": torch.tensor(decay, dtype=torch.float32),
        }
        return compvis_keys(rename(self.averaged_state())) | scalars

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor], rename: Rename = dict) -> None:
        """Take the average from CompVis' keys without `model_ema.`; `rename` is the one that `state_dict` takes.

        Steps are not taken from it (see `load_resume_state`). `Fault` MOD03, with nothing changed, if a tensor is
        absent or of another shape; tensors that are not tracked here are left alone with a warning.
        """
        self._refuse_while_swapped("loaded")
        targets = compvis_keys(rename(self.averaged_state()))
        self._refuse_copies(targets)
        _refuse_misfits(state, targets)
        if unknown := sorted(state.keys() - targets.keys() - _SCALARS):
            logger.warning(
                "%d EMA weights of the checkpoint are not trained here and were left out (%s ...)",
                len(unknown),
                unknown[0],
            )
        for key, target in targets.items():
            target.copy_(state[key])

    def resume_state(self) -> dict[str, int]:
        """What an exact resume needs besides `state_dict`: plain numbers, since public files have no such keys."""
        return {"step": self.step, "last_update": self.last_update, "update_every": self.update_every}

    def load_resume_state(self, state: Mapping[str, int]) -> None:
        """Go on where `resume_state` was taken. A stored `update_every` counts only where ours is `"auto"`."""
        self.step, self.last_update = int(state["step"]), int(state["last_update"])
        if self._auto:
            self.update_every = int(state["update_every"])

    def _average(self) -> None:
        if self.step == self.last_update:
            return
        tensors = self._tensors()
        if not all_finite(tensors):
            self.skipped_nonfinite += 1
            logger.warning("the weights of step %d are not finite and were kept out of the EMA", self.step)
            return
        self._shadow.lerp(tensors, -math.expm1(self.profile.log_beta(self.last_update, self.step)))
        self.last_update = self.step

    def _tensors(self) -> dict[str, Tensor]:
        """The tracked parameters as they are now, by canonical name."""
        present = dict(_named(self._owner))
        if missing := [name for name in self._names.values() if name not in present]:
            raise RuntimeError(f"{len(missing)} averaged parameters are no longer in the model ({missing[0]} ...)")
        return {canonical: present[name] for canonical, name in self._names.items()}

    def _refuse_while_swapped(self, wish: str) -> None:
        if self.swapped:
            raise RuntimeError(f"the EMA cannot be {wish} while its weights are swapped into the model")

    def _refuse_copies(self, targets: Mapping[str, Tensor]) -> None:
        memory = self._shadow.flat.untyped_storage().data_ptr()
        if copies := [key for key, target in targets.items() if target.untyped_storage().data_ptr() != memory]:
            raise ValueError(f"rename gave copies instead of views ({copies[0]} ...), which cannot be loaded into")


def compvis_keys(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`state` under its names without dots, as CompVis stores an EMA; ValueError where two names would become one."""
    names: dict[str, str] = {}
    for name in state:
        key = name.replace(".", "")
        if key in _SCALARS:
            raise ValueError(f"an averaged parameter cannot be called {name!r}: checkpoints use {key!r} for a number")
        if key in names:
            raise ValueError(f"{names[key]!r} and {name!r} cannot be averaged together: without dots both are {key!r}")
        names[key] = name
    return {key: state[name] for key, name in names.items()}


def _named(parameters: nn.Module | Mapping[str, nn.Parameter]) -> Iterable[tuple[str, nn.Parameter]]:
    return parameters.named_parameters() if isinstance(parameters, nn.Module) else parameters.items()


def _canonical_names(names: Iterable[str]) -> dict[str, str]:
    """Canonical name -> name, where the canonical one lacks what compilation, DDP and checkpointing add."""
    result: dict[str, str] = {}
    for name in names:
        canonical = ".".join(part for part in name.split(".") if part not in _WRAPPERS)
        if canonical in result:
            raise ValueError(f"{result[canonical]!r} and {name!r} cannot be averaged together: both are {canonical!r}")
        result[canonical] = name
    if not result:
        raise ValueError("there is nothing to average: no parameter requires a gradient")
    return result


def _refuse_misfits(state: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> None:
    missing = [f"{key} is missing" for key in targets if key not in state]
    shapes = [
        f"{key} is {tuple(state[key].shape)} instead of {tuple(target.shape)}"
        for key, target in targets.items()
        if key in state and state[key].shape != target.shape
    ]
    if misfits := missing + shapes:
        raise Fault(
            "MOD03",
            "the EMA weights of this checkpoint do not fit this model",
            why=f"{len(misfits)} of {len(targets)} differ; {'; '.join(misfits[:3])}",
            fix="load it without its EMA, which then starts from the weights",
        )


@torch.no_grad()
def _write_back(raw: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        tensor.copy_(raw[name])
