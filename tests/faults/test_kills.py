"""Programs that are ended at random moments: no run is lost, no weight differs, no start from an older checkpoint."""

import os
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.forks import Forks, spawned
from support.killing import ENDS, SAVERS, Ends, Killed, Start, compare
from support.runs import TINY, make_shapes, newest_run

from lun.trainer import run as run_program

KILLS = int(os.environ.get("LUN_KILLS", "200"))
STARTS = 10
"""How many of the kills of a campaign are of programs that a shell would have started."""


def campaign(start: Start, folder: Path, data: Path, settings: list[str], times: int, seed: int) -> Counter[str]:
    """Runs of one configuration, killed until so many kills came in time, each compared with one that was not."""
    (folder / "straight").mkdir()
    straight = Killed(start, folder / "straight", settings, random.Random(0)).run(data, 0)
    counts: Counter[str] = Counter()
    for number in range(1000):
        if counts["ends"] >= times:
            return counts
        place = folder / f"killed-{number}"
        place.mkdir()
        killed = Killed(start, place, settings, random.Random(seed + number))
        compare(straight, killed.run(data, times - counts["ends"]))
        counts += killed.counts
    raise AssertionError("too few kills came in time")


def test_a_run_that_was_killed_right_before_its_last_save_gets_that_file(tmp_path: Path, pictures: Path) -> None:
    words = ["--base", str(TINY), "--logdir", str(tmp_path), "--data_root", str(pictures), "-t", SAVERS[0]]
    assert run_program([*words, "lightning.trainer.max_steps=2"]) == 0
    run = newest_run(tmp_path)
    (run / "checkpoints/last.ckpt").unlink()
    assert run_program(["-r", str(run), "-t"]) == 0
    assert (run / "checkpoints/last.ckpt").exists()


IN_PARTS = "{target: lun.strategies.%s, params: {save_distributed_checkpoint: true}}"
CONFIGURATIONS = {
    "plain": [],
    "workers": ["data.params.num_workers=2"],
    "accumulation": ["lightning.trainer.accumulate_grad_batches=3"],
    "bf16": ["lightning.trainer.precision=bf16-mixed"],
    "parts": ["lightning.trainer.strategy=" + IN_PARTS % "fsdp.FSDP"],
    "asynchronous": ["lightning.callbacks.periodic_checkpoint_overwrite.params.async_save=true"],
}


SHORT = "lightning.trainer.max_steps=16"


def test_a_killed_run_ends_as_if_nothing_had_happened(forks: Forks, tmp_path: Path, pictures: Path) -> None:
    settings = [*CONFIGURATIONS["workers"], SHORT]
    assert campaign(forks.start, tmp_path, pictures, settings, 4, seed=1)["ends"] == 4


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_forty_kills_in_each_configuration(forks: Forks, tmp_path: Path, pictures: Path, name: str) -> None:
    counts = campaign(forks.start, tmp_path, pictures, CONFIGURATIONS[name], 40, seed=100)
    print(name, dict(counts), flush=True)


EMA = "model.params.ema_config={target: ldm.modules.ema.LitEma, params: {%s}}"
POWER = "profile: {target: ldm.ema.profiles.PowerDecay, params: {sigma_rel: 0.1}}, widths: [0.05, 0.1]"
SNAPSHOTS = "lightning.callbacks.ema_snapshots={target: lun.callbacks.EmaSnapshots, params: {count: 4}}"
AXES: dict[str, dict[str, list[str]]] = {
    "loader": {"in the process": [], "one worker": ["data.params.num_workers=1"], "two": CONFIGURATIONS["workers"]},
    "saves": {
        "at once": [],
        "asynchronous": CONFIGURATIONS["asynchronous"],
        "in parts of FSDP": CONFIGURATIONS["parts"],
        "in parts of DDP": ["lightning.trainer.strategy=" + IN_PARTS % "ddp.DDP"],
    },
    "accumulation": {str(count): [f"lightning.trainer.accumulate_grad_batches={count}"] for count in (1, 2, 3)},
    "precision": {name: [f"lightning.trainer.precision={name}"] for name in ("32-true", "bf16-mixed", "bf16-true")},
    "data": {
        "squares": [],
        "from a cache": ["data.params.cache=true"],
        "buckets": ["data.params.buckets={resolutions: [8], step: 4}"],
        "buckets from a cache": ["data.params.buckets={resolutions: [8], step: 4}", "data.params.cache=true"],
    },
    "averages": {
        "of one decay": [],
        "every 3 steps": [EMA % "decay: 0.9, update_every: 3"],
        "of two widths": [EMA % "widths: [0.05, 0.1], update_every: 2"],
        "of two widths, with snapshots": [EMA % f"{POWER}, update_every: 1", SNAPSHOTS],
    },
    "seed": {str(seed): [f"seed={seed}"] for seed in (0, 1)},
}


def drawn(chance: random.Random) -> dict[str, str]:
    """One value of each axis."""
    return {axis: chance.choice(list(values)) for axis, values in AXES.items()}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of three shapes, as buckets want them."""
    return make_shapes(tmp_path_factory.mktemp("shapes"), [(8, 8)] * 4 + [(16, 8)] * 5 + [(8, 16)] * 2)


@pytest.fixture(scope="module")
def by_a_shell(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> Start:
    """The program as a person starts it."""
    environment = {"LUN_CACHE": str(tmp_path_factory.mktemp("cache"))}
    return lambda words, folder: spawned([sys.executable, str(repo_root / "main.py"), *words], folder, environment)


EACH = 8
"""Kills of a drawn configuration."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(KILLS // EACH))
def test_whatever_is_drawn_a_run_that_is_ended_at_random_ends_as_the_straight_one(
    forks: Forks, by_a_shell: Start, tmp_path: Path, shapes: Path, seed: int
) -> None:
    """Everything at random, the signal and the resume of an older checkpoint included, on the real command line.

    Programs are forks of one that has imported everything; a few are started as a shell does.
    """
    chance = random.Random(seed)
    chosen = drawn(chance)
    settings = [SHORT, *(word for axis, name in chosen.items() for word in AXES[axis][name])]
    (tmp_path / "straight").mkdir()
    straight = Killed(forks.start, tmp_path / "straight", settings, chance).run(shapes, 0)
    by_hand = seed < STARTS
    counts: Counter[str] = Counter()
    while counts["ends"] < EACH:
        real = by_hand and not counts["ends"]
        start, within, times = (by_a_shell, 40.0, 1) if real else (forks.start, 4.0, EACH - counts["ends"])
        ends = Ends(tuple(ENDS), in_saves=0.0 if real else 0.3, branches=0.25, within=within)
        place = tmp_path / f"killed-{counts['starts']}"
        place.mkdir()
        killed = Killed(start, place, settings, chance, ends)
        compare(straight, killed.run(shapes, times))
        counts += killed.counts
        counts["started by a shell"] += killed.counts["starts"] * real
    print(f"\nseed {seed}: {', '.join(chosen.values())}: {dict(counts)}", flush=True)
