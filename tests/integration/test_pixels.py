"""Pictures through the whole program."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.equality import differences, final_state
from support.runs import make_shapes, newest_run

from ldm.models.pixels import centred, shares
from lun.data.images import loss_masks, preparation

Lun = Callable[..., int]


@pytest.mark.parametrize("precision", ["32-true", "bf16-true"])
def test_pictures_and_masks_that_travel_as_bytes_train_to_the_same_bits(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    data = make_shapes(tmp_path / "shapes", [(8, 8)] * 5)
    settings = ["data.params.train.params.mask=folder", f"lightning.trainer.precision={precision}"]
    states: list[Any] = []
    as_bytes = preparation.to_bytes
    for name in ("bytes", "numbers"):
        if name == "numbers":
            monkeypatch.setattr(preparation, "to_bytes", lambda image: centred(as_bytes(image)))
            monkeypatch.setattr(loss_masks, "to_bytes", lambda image: shares(as_bytes(image)))
        assert lun("-t", "-n", name, *settings, "lightning.trainer.max_steps=2", data=data) == 0
        states.append(final_state(newest_run(tmp_path / "logs")))
    assert differences(*states) == []


DRAWN = [
    "data.params.train.params.crop={resized: [0.5, 1]}",
    "data.params.train.params.colour_jitter={brightness: 0.2, hue: 0.1}",
    "data.params.train.params.rotate=5",
    "data.params.train.params.size=8",
]


def test_drawn_cuts_colours_and_turns_are_those_of_the_slots_after_a_resume_too(lun: Lun, tmp_path: Path) -> None:
    data = make_shapes(tmp_path / "shapes", [(20, 14)] * 5)
    assert lun("-t", "-n", "straight", *DRAWN, "lightning.trainer.max_steps=4", data=data) == 0
    straight = final_state(newest_run(tmp_path / "logs"))
    horizon = "model.params.scheduler_config.params.total_steps=4"
    assert lun("-t", "-n", "chain", *DRAWN, horizon, "lightning.trainer.max_steps=2", data=data) == 0
    workers = "data.params.num_workers=2"
    resumed = ["-r", str(newest_run(tmp_path / "logs")), "-t", workers, "lightning.trainer.max_steps=4"]
    assert lun(*resumed, base=False) == 0
    assert differences(straight, final_state(newest_run(tmp_path / "logs"))) == []


@pytest.mark.slow
def test_variants_in_a_cache_are_those_of_the_slots_after_a_resume_too(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))
    data = make_shapes(tmp_path / "shapes", [(20, 14)] * 3)
    settings = [*DRAWN, "data.params.cache={variants: 2}"]
    assert lun("-t", "-n", "straight", *settings, "lightning.trainer.max_steps=4", data=data) == 0
    straight = final_state(newest_run(tmp_path / "logs"))
    horizon = "model.params.scheduler_config.params.total_steps=4"
    assert lun("-t", "-n", "chain", *settings, horizon, "lightning.trainer.max_steps=2", data=data) == 0
    assert lun("-r", str(newest_run(tmp_path / "logs")), "-t", "lightning.trainer.max_steps=4", base=False) == 0
    assert differences(straight, final_state(newest_run(tmp_path / "logs"))) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["data.params.cache={variants: 2}"], "variants has no effect"),
        ([*DRAWN, "data.params.cache=true"], "variants=4"),
    ],
)
def test_a_cache_that_does_not_suit_its_pictures_is_refused_before_anything_is_read(
    lun: Lun, capfd: pytest.CaptureFixture[str], settings: list[str], said: str
) -> None:
    assert lun("--check", *settings) == 2
    assert said in "".join(capfd.readouterr())
