"""A command is read as a shell would read it, wherever it stands."""

import re

import pytest

from ldm.errors import Fault
from lun.migrate.command_lines import command_in

SCRIPTS = re.compile(r"train\.py")


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --a 1 --b --c='x y' --d 2 3",
        'accelerate launch --num_processes 2 "C:\\sd scripts\\train.py" --a 1 --b --c="x y" --d 2 3',
        "#!/bin/sh\nX='x y'\nexport ONE=1\npython ../s/train.py --a ${ONE} \\\n  --b --c \"$X\" \\\n --d 2 3 # end",
        'python train.py ^\r\n --a 1 ^\r\n --b --c "x y" --d 2 3 && pause',
    ],
    ids=["plain", "windows", "script", "batch"],
)
def test_options_come_by_name_with_their_values(text):
    command = command_in(text, SCRIPTS)
    assert command is not None and command.script == "train.py"
    assert command.options == {"a": "1", "b": True, "c": "x y", "d": ["2", "3"]}


def test_what_launches_is_apart_and_negative_numbers_are_values():
    command = command_in("accelerate launch --num_processes=2 train.py stray --low -1", SCRIPTS)
    assert command is not None
    assert (command.launcher, command.others, command.options) == ({"num_processes": "2"}, ["stray"], {"low": "-1"})


def test_a_text_without_such_a_script_has_no_command():
    assert command_in("python other.py --a 1", SCRIPTS) is None


def test_a_quote_that_is_left_open_is_a_fault():
    with pytest.raises(Fault, match="cannot be read"):
        command_in("python train.py --a 'x", SCRIPTS)
