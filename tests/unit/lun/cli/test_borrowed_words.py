"""What commands with the words of `main.py` answer before they do anything."""

import pytest

from ldm.errors import Fault
from lun.cli.borrowed_words import borrowed_words


def asked(*words: str) -> object:
    return borrowed_words(words, "python -m lun.memory", "usage: python -m lun.memory\n", "--base sd15 12gb")


def test_help_and_completion_are_answered_and_end_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked() is None and asked("--help") is None
    assert capsys.readouterr().out == "usage: python -m lun.memory\n" * 2
    assert asked("--print-completion", "bash") is None
    assert "complete -o bashdefault -F _shtab_lun_memory lun.memory" in capsys.readouterr().out


def test_words_without_a_configuration_are_refused_with_an_example() -> None:
    with pytest.raises(Fault) as caught:
        asked("seed=1")
    assert (caught.value.what, caught.value.fix) == ("--base is needed", "python -m lun.memory --base sd15 12gb")
