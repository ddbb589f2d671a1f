"""What the flags of `python -m lun.sample` take: the cases follow from the parser's own list of them."""

import argparse

import pytest

from ldm.errors import Fault
from lun.sample.arguments import build, parse, text_encoders

NUMBERS = [action for action in build()._actions if action.type is not None and action.dest != "scheduler"]
NONSENSE = ["nan", "inf", "-inf", "-2", "-0.5", "1e999", "", " ", "x", "0x10", "1" * 5000]
SOUND = {
    "--seed": ["-1", "0", "12"],
    "--guidance": ["0", "1", "7.5"],
    "--guidance-rescale": ["0", "0.7", "1"],
    "--guidance-low": ["0", "0.28"],
    "--guidance-high": ["5.42"],
    "--size": ["512", "512x768"],
}


def test_the_flags_with_numbers_are_known() -> None:
    assert {action.option_strings[0] for action in NUMBERS} == {*SOUND, "--count", "--steps", "--batch"}


@pytest.mark.parametrize("value", NONSENSE, ids=lambda value: value[:8])
@pytest.mark.parametrize("flag", NUMBERS, ids=lambda action: action.option_strings[0])
def test_a_number_that_makes_no_sense_is_refused(flag: argparse.Action, value: str) -> None:
    with pytest.raises(Fault) as fault:
        parse(["RUN", f"{flag.option_strings[0]}={value}"])
    assert fault.value.id == "CLI03" and flag.option_strings[0] in fault.value.what


@pytest.mark.parametrize("flag", NUMBERS, ids=lambda action: action.option_strings[0])
def test_a_number_that_makes_sense_is_taken(flag: argparse.Action) -> None:
    for value in SOUND.get(flag.option_strings[0], ["1", "20"]):
        assert getattr(parse(["RUN", flag.option_strings[0], value]), flag.dest) is not None


def test_a_solver_is_one_that_is_known() -> None:
    assert parse(["RUN", "--scheduler", "k_euler"]).scheduler == "euler"
    with pytest.raises(Fault, match="no solver"):
        parse(["RUN", "--scheduler", "1"])


def test_text_encoders_are_files_by_name_or_null() -> None:
    assert text_encoders(["t5=a=b.safetensors", "clip=null"]) == {"t5": "a=b.safetensors", "clip": None}
    for word in ("t5", "t5=", "=a"):
        with pytest.raises(Fault, match="takes NAME=FILE"):
            text_encoders([word])
