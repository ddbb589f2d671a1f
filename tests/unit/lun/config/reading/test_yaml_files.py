"""Configs and what they name are found from anywhere: beside the person first, then what came with the program."""

from pathlib import Path

import pytest

from ldm.errors import Fault
from lun.config.reading.yaml_files import HOME, anchored, find_config

FIRST_STAGE = "configs/demo/first_stage.safetensors"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["emoji", "configs/demo/emoji.yaml"])
def test_a_shipped_config_is_found_from_any_folder(here: Path, name: str) -> None:
    assert find_config(name) == HOME / "configs/demo/emoji.yaml"


def test_a_file_of_ones_own_wins_over_a_shipped_one(here: Path) -> None:
    write(here / "configs/demo/emoji.yaml")
    assert find_config("emoji") == Path("configs/demo/emoji.yaml")


def test_a_misspelt_name_suggests_ones_own_file_before_the_shipped_one(here: Path) -> None:
    write(here / "configs/demo/emoji.yaml")
    with pytest.raises(Fault) as caught:
        find_config("emojy")
    assert caught.value.fix == "did you mean configs/demo/emoji.yaml?"


def test_a_path_that_a_shipped_config_names_is_that_of_the_program(here: Path) -> None:
    assert anchored({"a": [FIRST_STAGE]}) == {"a": [(HOME / FIRST_STAGE).as_posix()]}


def test_a_path_that_exists_from_here_stays_as_it_is_written(here: Path) -> None:
    write(here / FIRST_STAGE)
    assert anchored(FIRST_STAGE) == FIRST_STAGE


@pytest.mark.parametrize("value", ["configs/nowhere.safetensors", "lun/trainer.py", 3, None])
def test_what_names_no_shipped_config_is_left_alone(here: Path, value: object) -> None:
    assert anchored(value) == value
