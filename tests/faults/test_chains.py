"""Runs that end and go on again and again, at any step and in any way, are the straight run to the bit."""

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from support.equality import differences, final_state
from support.runs import TINY, make_pictures, make_shapes, newest_run
from support.warm import VALIDATION

import ldm.models.base
from ldm.models.base import TrainedModel
from ldm.position import Position
from lun.trainer import run

STEPS = 12
EPOCH = 4
"""Steps in which the eight pictures come round once, two at a time."""

AUTOENCODER = TINY.with_name("tiny-autoencoder.yaml")
BUCKETS = "data.params.buckets={resolutions: [8], step: 4}"
EVERY_SECOND = (
    "lightning.callbacks.periodic_checkpoint_overwrite={target: lun.callbacks.Checkpoint,"
    " params: {filename: every-2k-steps, every_n_train_steps: 2}}"
)
IMAGES = (
    "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger,"
    " params: {batch_frequency: 5, prompts: [red], log_images_kwargs: {ddim_steps: 1}}}"
)
EMA = "model.params.ema_config={target: ldm.modules.ema.LitEma, params: {%s}}"


@dataclass(frozen=True)
class Configuration:
    settings: list[str] = field(default_factory=list)
    base: Path = TINY
    shapes: bool = False


CONFIGURATIONS = {
    "fp32": Configuration(),
    "bf16-mixed": Configuration(["lightning.trainer.precision=bf16-mixed"]),
    "16-mixed": Configuration(["lightning.trainer.precision=16-mixed"]),
    "accumulation": Configuration(["lightning.trainer.accumulate_grad_batches=3"]),
    "workers": Configuration(["data.params.num_workers=2", "lightning.trainer.accumulate_grad_batches=2"]),
    "buckets": Configuration([BUCKETS], shapes=True),
    "buckets and cache": Configuration([BUCKETS, "data.params.cache=true"], shapes=True),
    "cache": Configuration(["data.params.cache=true"]),
    "frozen text encoder": Configuration(["model.params.cond_stage_trainable=false"]),
    "text encoder at its own rate": Configuration(["model.params.cond_stage_lr_multiple=0.1"]),
    "EMA between its updates": Configuration([EMA % "decay: 0.9, update_every: 5"]),
    "EMA of widths": Configuration([EMA % "widths: [0.05, 0.1], update_every: 3"]),
    "validation, pictures and savers": Configuration(
        ["lightning.trainer.val_check_interval=4", VALIDATION, EVERY_SECOND, IMAGES]
    ),
    "autoencoder": Configuration(base=AUTOENCODER),
    "autoencoder, accumulation": Configuration(["lightning.trainer.accumulate_grad_batches=2"], base=AUTOENCODER),
    "autoencoder, bf16-mixed": Configuration(["lightning.trainer.precision=bf16-mixed"], base=AUTOENCODER),
}
LONG_ALONE = (
    "fp32",
    "bf16-mixed",
    "accumulation",
    "text encoder at its own rate",
    "autoencoder, accumulation",
    "buckets",
    "cache",
    "frozen text encoder",
    "workers",
    "autoencoder",
    "autoencoder, bf16-mixed",
    "EMA of widths",
)
"""What the quick part leaves out: their parts come up in other configurations, or in the chains of `integration/`."""


@contextmanager
def ending_at(step: int, how: str) -> Iterator[None]:
    """Let the run end once it has so many steps: by SIGTERM, or by an error in the middle of the next window."""
    advance = Position.advance
    batches = 0

    def advanced(self: Position, examples: int) -> None:
        advance(self, examples)
        if self.step == step and how == "stop":
            os.kill(os.getpid(), signal.SIGTERM)

    def seeded(self: TrainedModel, batch_idx: int) -> None:
        nonlocal batches
        batches += self.position.step == step
        if how == "error" and batches == (2 if self.trainer.accumulate_grad_batches > 1 else 1):
            raise ArithmeticError("an error in the middle of a window")
        seed_networks(self, batch_idx)

    seed_networks = TrainedModel.seed_networks
    with patch.object(Position, "advance", advanced), patch.object(TrainedModel, "seed_networks", seeded):
        yield


class Chains:
    """Straight runs and chains of one session, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.straight = cache(self._straight)

    def words(self, name: str) -> list[str]:
        configuration = CONFIGURATIONS[name]
        self.count += 1
        logs = self.folder / f"logs-{self.count}"
        data = self.shapes if configuration.shapes else self.pictures
        words = ["--base", str(configuration.base), "--data_root", str(data), "--logdir", str(logs)]
        return [*words, f"lightning.trainer.max_steps={STEPS}", *configuration.settings, "-t"]

    @property
    def pictures(self) -> Path:
        return make_pictures(self.folder / "pictures", 2 * EPOCH)

    @property
    def shapes(self) -> Path:
        return make_shapes(self.folder / "shapes", [(8, 8)] * 4 + [(16, 8)] * 5)

    def _straight(self, name: str) -> dict[str, Any]:
        assert run(self.words(name)) == 0
        return final_state(newest_run(self.folder / f"logs-{self.count}"))

    def chain(self, name: str, cuts: list[tuple[int, str]]) -> dict[str, Any]:
        words = self.words(name)
        logs = self.folder / f"logs-{self.count}"
        for step, how in cuts:
            with ending_at(step, how):
                assert run(words) == {"stop": 143, "error": 70}[how]
            words = ["-r", str(newest_run(logs)), "-t"]
        assert run(words) == 0
        return final_state(newest_run(logs))


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Chains:
    return Chains(tmp_path_factory.mktemp("chains"))


def random_cuts(chance: random.Random) -> list[tuple[int, str]]:
    """Two to five steps, ends of epochs often among them, and a way to end for each."""
    places = sorted(chance.sample([*range(1, STEPS), EPOCH, 2 * EPOCH], chance.randint(2, 5)))
    return [(step, chance.choice(["stop", "stop", "error"])) for step in dict.fromkeys(places)]


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name not in LONG_ALONE])
def test_a_chain_of_resumes_equals_the_straight_run(chains: Chains, name: str) -> None:
    assert differences(chains.straight(name), chains.chain(name, [(EPOCH, "stop"), (7, "error")])) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_ten_random_chains_of_resumes_equal_the_straight_run(chains: Chains, name: str) -> None:
    chance = random.Random(name)
    for _ in range(10):
        cuts = random_cuts(chance)
        assert differences(chains.straight(name), chains.chain(name, cuts)) == [], cuts


def without_position(self: Position, state: dict[str, int]) -> None:
    self.step, self.images = state["step"], state["images"]


def without_key(self: TrainedModel, batch_idx: int) -> None:
    """Dropout draws from whatever the process has drawn before."""


def forgetting(entry: str, empty: Any) -> Callable[[TrainedModel, dict[str, Any]], None]:
    restore = TrainedModel.on_load_checkpoint

    def restored(self: TrainedModel, checkpoint: dict[str, Any]) -> None:
        checkpoint[entry] = empty
        restore(self, checkpoint)

    return restored


FORGOTTEN = {
    "position": (Position, "load_state_dict", without_position),
    "keys of dropout": (TrainedModel, "seed_networks", without_key),
    "key of all draws": (ldm.models.base, "BatchDraws", lambda seed, slot: _draws(seed + os.urandom(1)[0] + 1, slot)),
    "EMA between its updates": (TrainedModel, "on_load_checkpoint", forgetting("ema", None)),
    "optimizer": (TrainedModel, "on_load_checkpoint", forgetting("optimizer_states", [])),
    "schedule": (TrainedModel, "on_load_checkpoint", forgetting("lr_schedulers", [])),
}
_draws = ldm.models.base.BatchDraws


@pytest.mark.parametrize("what", FORGOTTEN)
def test_what_is_left_out_of_a_resume_is_noticed(chains: Chains, what: str) -> None:
    """Negative controls: were one of these not restored, the comparison above would fail."""
    name = "EMA between its updates"
    straight = chains.straight(name)
    with patch.object(*FORGOTTEN[what]):
        assert differences(straight, chains.chain(name, [(3, "stop")])) != []
