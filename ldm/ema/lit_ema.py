"""LitEma: an exponential moving average of a model's weights, kept in fp32 beside it, saved under CompVis' keys."""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ldm.admission import configurable
from ldm.ema.async_copy import Pipeline, pipeline_for
from ldm.ema.checkpoint_state import (
    Rename,
    compvis_keys,
    fill,
    gathered,
    load_main,
    load_tracks,
    main_state,
    targets,
    track_state,
    warn_of_unknown,
)
from ldm.ema.model_weights import LocalParameters, ParameterSource, Sharded, in_full, read_from
from ldm.ema.profiles import ConstantDecay, PowerDecay, Profile
from ldm.ema.shadow import Shadow, parked, put_back
from ldm.ema.start import law_of, settle_interval, start_step, usable, warn_if_short
from ldm.ema.tracks import Track, absorb, power_tracks
from ldm.ema.trailing_mean import track_of

logger = logging.getLogger(__name__)


@configurable
class LitEma:
    """Averages the parameters that require a gradient when it is built, once every `update_every` optimizer steps.

    parameters    a module, a mapping by name, or a `ParameterSource`
    decay, warmup, half_life_steps, half_life_images  per step, with CompVis' `warmup`; a half-life replaces both
    span          another word for a decay: 1 - alpha with alpha = 2 / (span + 1), of as many steps
    profile       any law of `ldm.ema.profiles`, in the place of these
    update_every  never changes the horizon of the average: the decay of an interval is the product of those of its
                  steps. "auto" takes the longest harmless interval, from `total_steps` where the law depends on it
    start         the step at which the average begins as a copy of the weights and first takes memory, or "3.5%" for
                  the last 3.5 % of the run; until then the weights stand for their average
    widths        relative widths of power-function averages (Karras et al. 2024) that are kept beside this one
    device        where the averages lie; on the CPU they cost an accelerator neither memory nor time
    threads       of the arithmetic, where it runs beside an accelerator
    total_steps, examples_per_step  given by the run

    It owns no buffers: nothing moves or broadcasts it.
    """

    def __init__(
        self,
        parameters: nn.Module | Mapping[str, nn.Parameter] | ParameterSource,
        decay: float = 0.9999,
        update_every: int | Literal["auto"] = 10,
        warmup: bool = True,
        profile: Profile | None = None,
        device: str = "cpu",
        start: int | str = 0,
        widths: Sequence[float] = (),
        span: float | None = None,
        half_life_steps: float | None = None,
        half_life_images: float | None = None,
        threads: int = 4,
        total_steps: int | None = None,
        examples_per_step: int | None = None,
    ) -> None:
        usual = ConstantDecay(decay, warmup)
        self.profile = law_of(profile, usual, span, half_life_steps, half_life_images, examples_per_step)
        begin = start_step(start, total_steps)
        warn_if_short(self.profile, begin, total_steps)
        self.widths = tuple(widths)
        self._main = track_of(self.profile, begin)
        self._tracks = {"ema": self._main} | power_tracks(self._main, widths)
        self._auto = update_every == "auto"
        steps = None if total_steps is None else max(1, total_steps - begin)
        self.update_every = settle_interval(update_every, [track.profile for track in self._distinct()], steps)
        self._device, self._threads = usable(device, threads)
        self._source = parameters if not isinstance(parameters, nn.Module | Mapping) else LocalParameters(parameters)
        compvis_keys(self._source.shapes() if isinstance(self._source, Sharded) else self._source.tensors())
        self._pipeline: Pipeline | None = None
        self._raw: dict[str, Tensor] | None = None
        self.step = self._taken = 0
        self.skipped_nonfinite = 0
        self._begin_due()

    def update(self, step: int) -> None:
        """Note that optimizer step `step` (counted from 1) is complete; averages if one is due.

        Call it at the end of every accumulation window. NaN and infinity are kept out (`absorb`): `skipped_nonfinite`
        counts the updates that held any. RuntimeError while swapped. From an accelerator the weights arrive later
        (`ldm.ema.async_copy`), so `gate` has to come before the next optimizer step.
        """
        self._refuse_while_swapped("updated")
        if step < self._taken:
            raise ValueError(f"step {step} lies before step {self._taken}, which is already averaged in")
        self.step = step
        self._begin_due()
        if step % self.update_every == 0:
            self._average()

    def gate(self) -> None:
        """Right before an optimizer step, or whatever else writes weights: they may still be on their way to the CPU.

        Raises what went wrong in the worker since.
        """
        if self._pipeline is not None:
            self._pipeline.gate()

    def settle(self) -> None:
        """Wait until all weights that were taken are averaged in, and put averages together that lie in blocks."""
        if self._pipeline is not None:
            self._pipeline.join()
        for track in self._distinct():
            track.refresh()

    def flush(self, step: int) -> None:
        """Average in the weights of `step` now, whether due or not.

        For the end of training only: done at each checkpoint, the result would depend on how often a run saves.
        """
        self.update(step)
        self._average()
        self.settle()

    def reset(self, step: int = 0) -> None:
        """Start over at `step` from the present weights, for example after loading a checkpoint that has no EMA."""
        self._refuse_while_swapped("reset")
        self.step = self._taken = step
        for track in self._distinct():
            if track.shadow is not None:
                self._begin(track)
        self._begin_due()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Put the averaged weights into the model for the duration; afterwards the raw ones are back bit for bit.

        They come back after an exception or Ctrl-C too. RuntimeError if the weights are swapped already. Before the
        average begins (`start`) the weights stand for it.
        """
        self._refuse_while_swapped("swapped in again")
        self.settle()
        if self._main.shadow is None:
            yield
            return
        tensors = self._source.tensors()
        read, place = read_from(self._source), self._main.shadow.flat.device
        raw = self._pipeline.park(read) if self._pipeline else parked(read, place)
        try:
            self._raw = raw
            self._main.shadow.give(tensors)
            self._written()
            yield
        finally:
            put_back(raw, tensors)
            self._written()
            # Freed rather than kept: an update needs no buffer of this size, so it would cost a model's worth for good.
            self._raw = None

    ema_scope = scope

    @property
    def swapped(self) -> bool:
        """Whether the averaged weights are in the model at the moment."""
        return self._raw is not None

    @property
    def last_update(self) -> int:
        """The step whose weights were averaged in last."""
        self.settle()
        return self._main.last_update

    @property
    def started(self) -> bool:
        """Whether there is an average yet (`start`)."""
        return self._main.shadow is not None

    @property
    def stall_ms(self) -> float | None:
        """How long the last update kept training waiting for the one before; None where nothing runs beside it."""
        return None if self._pipeline is None else self._pipeline.stall_ms

    def tracks(self) -> dict[str, Track]:
        """All averages that have begun, settled: "ema", and "power-<width>" for each of the widths."""
        self.settle()
        return {name: track for name, track in self._tracks.items() if track.shadow is not None}

    def averaged_state(self) -> dict[str, Tensor]:
        """The average by canonical name: fp32 views, which the next update changes; empty before it begins.

        Of a sharded model it is whole and rank 0's alone (`Sharded`); that holds for all states below.
        """
        self.settle()
        return self.whole(self._main) if self.started else {}

    def whole(self, track: Track) -> dict[str, Tensor]:
        """One of `tracks` by canonical name, as `averaged_state` is."""
        assert track.shadow is not None
        return gathered(self._source, dict(track.shadow.views))

    def raw_state(self) -> dict[str, Tensor]:
        """The trained weights by canonical name, also while the averaged ones are in the model.

        Lay them over the model's state in every checkpoint, so that one written during a swap holds the raw weights.
        """
        read = read_from(self._source) if self._raw is None else self._raw
        return gathered(self._source, {name: one.detach() for name, one in in_full(self._source, read).items()})

    def state_dict(self, rename: Rename = dict) -> dict[str, Tensor]:
        """CompVis' EMA keys without `model_ema.`: names free of dots (views), `num_updates` (int32, steps), `decay`.

        `decay` is what the law tends to; no reader of ours looks at it. Empty before the average begins.
        """
        if not self.started:
            return {}
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
        self.settle()
        if self._main.shadow is None:  # the file's average began already, so ours does
            self._begin(self._main)
        with targets(self._source, dict(self._shadow.views), lambda views: compvis_keys(rename(views))) as places:
            fill(places, state)
            warn_of_unknown(state, places)

    def resume_state(self, rename: Rename = dict) -> dict[str, Any]:
        """What an exact resume needs besides `state_dict`; plain numbers and tensors, public files have no such keys.

        step, last_update and update_every; `start` where it matters; `tracks` of the widths;
        `same_as_ema`, widths for which the main average stands.
        """
        self.settle()
        state = main_state(self._main, self._source, rename) | {"step": self.step, "update_every": self.update_every}
        tracks = {name: track for name, track in self.tracks().items() if track is not self._main}
        others = {name: track_state(track, self._source, rename) for name, track in tracks.items()}
        same = [name for name, track in self.tracks().items() if track is self._main and name != "ema"]
        return state | ({"tracks": others} if others else {}) | ({"same_as_ema": same} if same else {})

    def load_resume_state(self, state: Mapping[str, Any], rename: Rename = dict) -> None:
        """Go on where `resume_state` was taken. A stored `update_every` counts only where ours is `"auto"`.

        A width that the state does not hold begins now, with a warning.
        """
        self.settle()
        self.step = int(state["step"])
        load_main(self._main, self._source, state, rename)
        self._taken = self._main.last_update
        if self._auto:
            self.update_every = int(state["update_every"])
        load_tracks(self._tracks, self._source, state.get("tracks", {}), rename, self._begin)

    def _average(self) -> None:
        if self.step == self._taken:
            return
        self._taken = step = self.step
        tensors = read_from(self._source)
        if self._pipeline is None and torch.device(self._device).type == "cpu":
            self._pipeline = pipeline_for(tensors, self._threads)
        if self._pipeline is None:
            self._absorb(tensors, step)
        else:
            self._pipeline.launch(tensors, lambda staged: self._absorb(staged, step))

    def _absorb(self, tensors: Mapping[str, Tensor], step: int) -> None:
        begun = [track for track in self._distinct() if track.shadow is not None]
        if begun and (bad := absorb(begun, in_full(self._source, tensors), step)):
            self.skipped_nonfinite += 1
            logger.warning("%d weights of step %d are not finite and were kept out of the EMA", bad, step)

    def _begin_due(self) -> None:
        for track in self._distinct():
            if track.shadow is None and self.step >= track.start:
                self._begin(track)

    def _begin(self, track: Track) -> None:
        """Let `track` be a copy of the present weights. Power laws count from there, as later reconstruction needs."""
        self.settle()
        if isinstance(track.profile, PowerDecay):
            track.start = self.step
        track.begin(in_full(self._source, read_from(self._source)), self.step, self._device)

    def _distinct(self) -> list[Track]:
        """The tracks without repeats: a width may be that of the main average."""
        return list({id(track): track for track in self._tracks.values()}.values())

    @property
    def _shadow(self) -> Shadow:
        assert self._main.shadow is not None
        return self._main.shadow

    def _written(self) -> None:
        if isinstance(self._source, Sharded):
            self._source.written()

    def _refuse_while_swapped(self, action: str) -> None:
        if self.swapped:
            raise RuntimeError(f"the EMA cannot be {action} while its weights are swapped into the model")

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which get a pipeline of their own when they need one."""
        self.settle()
        return self.__dict__ | {"_pipeline": None}
