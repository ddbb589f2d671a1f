"""kill -9 at random moments: no run is lost, no weight differs, no start from an older checkpoint than the newest."""

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.equality import differences, final_state
from support.forks import Forks, Program
from support.runs import TINY, load, newest_run
from support.warm import VALIDATION

from lun.checkpoints.atomic import unreadable
from lun.trainer import run as run_program

STEPS = 30
SAVERS = [
    "lightning.callbacks.periodic_checkpoint_overwrite={target: lun.callbacks.Checkpoint,"
    " params: {filename: every-2k-steps, every_n_train_steps: 2}}",
    "lightning.callbacks.periodic_checkpoint={target: lun.callbacks.Checkpoint,"
    " params: {filename: 'periodic/gs={step:06d}', every_n_train_steps: 10, save_top_k: -1}}",
    "lightning.callbacks.monitored_checkpoint={target: lun.callbacks.Checkpoint, params:"
    " {filename: 'monitor/gs={step:06d}', monitor: val/loss_simple_ema, save_top_k: 2}}",
]
WORDS = [f"lightning.trainer.max_steps={STEPS}", "lightning.trainer.val_check_interval=5", VALIDATION, *SAVERS]
RESUMED = re.compile(r"^resumed  (\S+) at step (\d+)$", re.MULTILINE)


@dataclass
class Campaign:
    """One run that is killed again and again until it has all its steps, and what was seen on the way."""

    forks: Forks
    folder: Path
    settings: list[str]
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)

    def first_start(self, pictures: Path) -> list[str]:
        return ["--base", str(TINY), "--logdir", "logs", "--data_root", str(pictures), "-t", *WORDS, *self.settings]

    def run(self, pictures: Path, kills: int) -> Path:
        """Carry it out; returns the run directory. At most `kills` kills, then it is left alone."""
        words, expected = self.first_start(pictures), None
        while True:
            with self.forks.start(words, self.folder) as program:
                killed = self.counts["kills"] < kills and self.kill(program, first=expected is None)
                code = program.code()
                assert code == (-9 if killed else 0), program.said()
                self.check_start(program, expected)
                assert program.orphans() == []
            run = newest_run(self.folder / "logs")
            if not killed:
                return run
            expected = newest_whole(run)
            self.counts["during a save"] += any(run.rglob("checkpoints/**/.*.tmp-*"))
            words = ["-r", str(run), "-t"]

    def kill(self, program: Program, first: bool) -> bool:
        """Kill it at a random moment, half of the time in the middle of a save; whether that came before its end."""
        saves = self.chance.randrange(8) + first
        if self.chance.random() < 0.5:
            reached = program.until(lambda: program.said().count("saved ") >= saves and saving(self.folder))
            time.sleep(self.chance.uniform(0, 0.01))
        else:
            reached = program.until(lambda: not first or program.said().count("saved ") > 0)
            time.sleep(self.chance.uniform(0, 1.2))
        if not reached or not program.running:
            return False
        program.send(9)
        self.counts["kills"] += program.code() == -9
        return program.code() == -9

    def check_start(self, program: Program, expected: int | None) -> None:
        self.counts["starts"] += 1
        found = RESUMED.search(program.said())
        self.counts["before it said where it goes on"] += expected is not None and found is None
        if expected is not None and found:
            assert int(found[2]) == expected, program.said()


def saving(folder: Path) -> bool:
    try:
        return any((folder / "logs").glob("*/checkpoints/**/.*.tmp-*"))
    except FileNotFoundError:  # the folder of an older save went while it was looked through
        return True


def newest_whole(run: Path) -> int:
    """The highest step of the run's checkpoints, each of which has to be whole."""
    steps = []
    for path in run.rglob("checkpoints/**/*.ckpt"):
        if not path.name.startswith("."):
            assert unreadable(path) is None
            steps.append(load(path)["lun"]["position"]["step"])
    return max(steps)


def metrics(run: Path) -> Iterator[tuple[int, str, float]]:
    """What was logged of losses, each time that it was."""
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        yield from ((row["step"], name, value) for name, value in row.items() if "loss" in name)


def straight_run(forks: Forks, folder: Path, pictures: Path, settings: list[str]) -> Path:
    campaign = Campaign(forks, folder, settings, random.Random(0))
    return campaign.run(pictures, kills=0)


def compare(straight: Path, run: Path) -> None:
    # Both hold the last step; a kill between the two saves leaves the first alone.
    assert differences(final_state(straight), final_state(run, "every-2k-steps.ckpt")) == []
    assert set(metrics(run)) == set(metrics(straight))
    assert [file.name for file in run.rglob(".*")] == [".lock"]
    assert (run / ".lock").read_text() == ""  # nobody holds it
    assert len([*run.rglob("*.shards-*")]) in (0, len([*run.rglob("*.ckpt")]))


def campaign(forks: Forks, folder: Path, pictures: Path, settings: list[str], kills: int, seed: int) -> Counter[str]:
    (folder / "straight").mkdir()
    straight = straight_run(forks, folder / "straight", pictures, settings)
    counts: Counter[str] = Counter()
    for number in range(1000):
        if counts["kills"] >= kills:
            return counts
        place = folder / f"killed-{number}"
        place.mkdir()
        killed = Campaign(forks, place, settings, random.Random(seed + number))
        compare(straight, killed.run(pictures, kills - counts["kills"]))
        counts += killed.counts
    raise AssertionError("too few kills came in time")


def test_a_run_that_was_killed_right_before_its_last_save_gets_that_file(tmp_path: Path, pictures: Path) -> None:
    words = ["--base", str(TINY), "--logdir", str(tmp_path), "--data_root", str(pictures), "-t", SAVERS[0]]
    assert run_program([*words, "lightning.trainer.max_steps=2"]) == 0
    run = newest_run(tmp_path)
    (run / "checkpoints/last.ckpt").unlink()
    assert run_program(["-r", str(run), "-t"]) == 0
    assert (run / "checkpoints/last.ckpt").exists()


IN_PARTS = "{target: lun.strategies.fsdp.FSDP, params: {save_distributed_checkpoint: true}}"
CONFIGURATIONS = {
    "plain": [],
    "workers": ["data.params.num_workers=2"],
    "accumulation": ["lightning.trainer.accumulate_grad_batches=3"],
    "bf16": ["lightning.trainer.precision=bf16-mixed"],
    "parts": [f"lightning.trainer.strategy={IN_PARTS}"],
    "asynchronous": ["lightning.callbacks.periodic_checkpoint_overwrite.params.async_save=true"],
}


def test_a_killed_run_ends_as_if_nothing_had_happened(forks: Forks, tmp_path: Path, pictures: Path) -> None:
    settings = [*CONFIGURATIONS["workers"], "lightning.trainer.max_steps=16"]
    assert campaign(forks, tmp_path, pictures, settings, 4, seed=1)["kills"] == 4


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_forty_kills_in_each_configuration(forks: Forks, tmp_path: Path, pictures: Path, name: str) -> None:
    counts = campaign(forks, tmp_path, pictures, CONFIGURATIONS[name], 40, seed=100)
    print(name, dict(counts), flush=True)
