"""What a person asks for in steps or epochs takes the place of a preset's epochs or steps."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from lun.config.reading.load_layers import load_layers
from lun.config.reading.yaml_files import HOME
from lun.run.wanted_length import with_wanted_length

PRESET = "sd15"
STEPS, EPOCHS = ("max_steps", "max_epochs")


def length_of(files: Sequence[str], *settings: str, stored: bool = False) -> tuple[dict[str, int], list[str]]:
    """{name: value} of what says how long to train, and the notes."""
    merged = load_layers(files, [f"lightning.trainer.{setting}" for setting in settings])
    merged, notes = with_wanted_length(merged, files if stored else ())
    trainer = merged.config["lightning"]["trainer"]
    return {name: trainer[name] for name in (STEPS, EPOCHS) if trainer.get(name) is not None}, notes


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(HOME)
    return tmp_path / "own.yaml"


def test_steps_of_the_command_line_replace_the_epochs_of_a_preset(own: Path) -> None:
    found, notes = length_of([PRESET], "max_steps=3000")
    assert found == {STEPS: 3000}
    assert len(notes) == 1 and "max_epochs 10 (" in notes[0] and "training-txt2img.yaml:" in notes[0]
    assert notes[0].endswith("gives way to max_steps, which says how long to train")


def test_epochs_replace_the_steps_of_the_demo(own: Path) -> None:
    assert length_of(["configs/demo/emoji.yaml"], "max_epochs=3")[0] == {EPOCHS: 3}


def test_a_file_of_ones_own_asks_as_the_command_line_does(own: Path) -> None:
    own.write_text("lightning: {trainer: {max_steps: 500}}\n")
    assert length_of([PRESET, str(own)])[0] == {STEPS: 500}
    assert length_of([PRESET, str(own)], "max_epochs=2") == ({STEPS: 500, EPOCHS: 2}, [])


def test_a_preset_alone_keeps_its_length_and_no_length_asks_for_none(own: Path) -> None:
    assert length_of([PRESET]) == ({EPOCHS: 10}, [])
    for nothing in ("max_steps=-1", "max_steps=null"):
        assert length_of([PRESET], nothing)[0][EPOCHS] == 10


def test_a_resumed_run_goes_on_for_as_long_as_the_command_line_says(own: Path) -> None:
    own.write_text("lightning: {trainer: {max_epochs: 10}}\n")
    found, notes = length_of([str(own)], "max_steps=40", stored=True)
    assert found == {STEPS: 40} and f"{own.as_posix()}:1" in notes[0]
    assert length_of([str(own)], "max_steps=40") == ({STEPS: 40, EPOCHS: 10}, [])
    own.write_text("lightning: {trainer: {max_epochs: 10, max_steps: 40}}\n")
    assert length_of([str(own)], stored=True) == ({STEPS: 40, EPOCHS: 10}, [])
