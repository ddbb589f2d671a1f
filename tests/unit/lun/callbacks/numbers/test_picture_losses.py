"""What is written of pictures: bounded, sorted, the same after a resume; nothing of other data."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ldm.errors import Fault
from lun.callbacks import PictureLosses


class Pictures:
    def __init__(self, count: int, sets: bool = False, name: str = "a") -> None:
        self.count, self.name = count, name
        if sets:
            self.set_of = lambda index: "even" if index % 2 == 0 else "odd"

    def __len__(self) -> int:
        return self.count

    def path(self, index: int) -> str:
        return f"{index:04}.png"

    def fingerprint(self) -> str:
        return self.name


def begun(folder: Path, train: Pictures, state: Any = None, held: int = 0, **params: int) -> PictureLosses:
    data = SimpleNamespace(dataset={"train": train, "validation": Pictures(held)}.__getitem__)
    data.has = lambda split: split == "train" or held > 0
    trainer: Any = SimpleNamespace(log_every_n_steps=1, datamodule=data, default_root_dir=str(folder))
    trainer.is_global_zero = True
    model: Any = SimpleNamespace(examples=SimpleNamespace(watch=lambda columns: None))
    model.position = SimpleNamespace(step=0)
    made = PictureLosses(**params)
    made.setup(trainer, model, "fit")
    if state is not None:
        made.load_state_dict(state)
    made.on_train_start(trainer, model)
    return made


def rows(examples: list[int], losses: list[float], log_snr: float = 0.0) -> dict[str, Any]:
    return {
        "example": np.array(examples, float),
        "loss": np.array(losses),
        "log_snr": np.full(len(examples), log_snr),
    }


def looks(rounds: int, count: int, odd: int, start: int = 0) -> list[tuple[int, dict[str, Any]]]:
    """Each picture once a round; the losses of one are ten times those of others."""
    numbers = np.random.default_rng(start)
    losses = [
        np.exp(numbers.normal(size=count) * 0.1) * np.where(np.arange(count) == odd, 10, 1) for _ in range(rounds)
    ]
    return [(start + step, rows([*range(count)], own.tolist(), step % 2)) for step, own in enumerate(losses, 1)]


def written(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "metrics/pictures.json").read_text())
    return found


def test_the_picture_that_stands_out_is_first_and_a_resume_changes_nothing(tmp_path: Path) -> None:
    straight = begun(tmp_path, Pictures(20), every_n_train_steps=1)
    for step, own in looks(8, 20, odd=13):
        straight.measure("train", own, step)
    found = written(tmp_path)
    first, *_, last = found["pictures"]
    assert found["step"] == 8 and first["path"] == "0013.png" and first["excess"] > 1 > 0 > last["excess"]
    assert first["split"] == "train" and first["set"] is None and first["n"] == 8 and len(first["trace"]) == 8
    state = None
    for step, own in looks(8, 20, odd=13):
        part = begun(tmp_path, Pictures(20), state, every_n_train_steps=1)
        part.measure("train", own, step)
        state = part.state_dict()
    assert written(tmp_path) == found
    other = begun(tmp_path, Pictures(20, name="b"), state)
    assert not len(other.tables["train"])  # a number means another picture there


def test_sets_are_compared_each_with_itself(tmp_path: Path) -> None:
    made = begun(tmp_path, Pictures(20, sets=True), every_n_train_steps=1)
    for step, own in looks(8, 20, odd=13):
        own["loss"][::2] *= 1000
        made.measure("train", own, step)
    found = written(tmp_path)["pictures"]
    assert (found[0]["path"], found[0]["set"]) == ("0013.png", "odd")


def test_pictures_held_out_are_told_as_they_are_after_each_validation(tmp_path: Path) -> None:
    made = begun(tmp_path, Pictures(20), held=3, compare=0)
    for step, own in looks(8, 20, odd=13):
        made.measure("train", own, step)
    for step, loss in ((8, 2.0), (16, 1.5)):
        made.measure("val", rows([0, 2], [loss, 9.0]), step)
        made.measure("val_ema", rows([0, 2], [0.1, 0.1]), step)
    held = {one["path"]: one for one in written(tmp_path)["pictures"] if one["split"] == "val"}
    assert held["0000.png"]["trace"] == [[8, 2.0], [16, 1.5]]
    assert (held["0000.png"]["loss"], held["0000.png"]["first"]) == (1.5, 2.0)
    assert held["0002.png"]["excess"] > held["0000.png"]["excess"]


def test_of_many_pictures_the_file_shows_both_ends_and_the_table_evenly_spread_ones(tmp_path: Path) -> None:
    made = begun(tmp_path, Pictures(1000), every_n_train_steps=1, follow=300)
    for step, own in looks(3, 1000, odd=12):
        made.measure("train", own, step)
    found = written(tmp_path)["pictures"]
    assert len(made.tables["train"]) == 250 and len(found) == 200 and found[0]["path"] == "0012.png"
    excess = [one["excess"] for one in found]
    assert excess == sorted(excess, reverse=True)


def test_losses_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    made = begun(tmp_path, Pictures(4), every_n_train_steps=1)
    for step in range(20):
        made.measure("train", rows([0, 1, 2, -1], [1.0, np.nan, 0.0, 1.0]), step)
        made.measure("train", rows([3], [1.0], np.inf), step)
    assert [one["path"] for one in written(tmp_path)["pictures"]] == ["0000.png"]


def test_a_disk_that_is_full_ends_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "metrics").write_text("")
    begun(tmp_path, Pictures(4), every_n_train_steps=1).measure("train", rows([0], [1.0]), 5)
    assert "cannot be written for now" in caplog.text


@pytest.mark.parametrize("params", [{"follow": 0}, {"compare": -1}, {"every_n_train_steps": 0}])
def test_settings_out_of_range_are_refused(params: dict[str, int]) -> None:
    with pytest.raises(Fault, match="cannot be"):
        PictureLosses(**params)
