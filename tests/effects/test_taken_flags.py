"""Each flag of `main.py` is carried out by a command that takes its words, or refused there by name."""

import ast
import importlib
import itertools
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from effects.test_flags import VALUES

from ldm.errors import Fault
from lun.cli.arguments import Arguments
from lun.cli.borrowed_words import borrowed_words
from lun.cli.completion import script_of_training
from lun.cli.flag_conflicts import LOOKING
from lun.cli.flags import FLAGS
from lun.cli.parser import parse
from lun.cli.taken_flags import ANSWERED, TAKEN, require_taken
from lun.sweep.trials import product_of

ROOT = Path(__file__).parents[2]
ITS_MODULE = {"python -m lun.memory": "lun.memory.command", "python -m lun.data.cache": "lun.run.caches_alone"}
SWEEP = "python -m lun.sweep"
OTHER = {"--no-test": ["true"]}  # false is refused wherever it stands
BESIDE = {"--accept-change": ["-r"], "--take-over": ["-r"]}  # without which the words say nothing to any command
CASES = list(itertools.product(TAKEN, FLAGS))


def words_with(flag: str) -> list[str]:
    configuration = [] if FLAGS[flag].field in LOOKING else ["--base", "tiny.yaml"]
    return [*configuration, *BESIDE.get(flag, []), flag, *(OTHER.get(flag) or VALUES.get(flag, []))]


def is_taken(command: str, flag: str) -> bool:
    return FLAGS[flag].field in TAKEN[command].fields


def importers(name: str) -> set[str]:
    """The modules of the program that import a function of this full name, or its module."""
    module = name.rpartition(".")[0]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "lun").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and {f"{node.module}.{alias.name}" for alias in node.names} & {name, module}
    }


def test_every_command_that_reads_these_words_says_which_it_carries_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert importers("lun.cli.parser.parse") == {"lun.trainer", "lun.cli.borrowed_words", "lun.sweep.trials"}
    assert importers("lun.cli.borrowed_words.borrowed_words") == set(ITS_MODULE.values())
    assert {command: importlib.import_module(module).COMMAND for command, module in ITS_MODULE.items()} == {
        command: command for command in TAKEN.keys() - {SWEEP}
    }
    with capsys.disabled():
        print(f"\n{len(FLAGS)} flags tried in {len(TAKEN)} commands that take the words of main.py")


@pytest.mark.parametrize("command, flag", CASES)
def test_a_flag_that_a_command_does_not_carry_out_is_refused_by_name(command: str, flag: str) -> None:
    arguments = parse(words_with(flag))
    if is_taken(command, flag):
        require_taken(arguments, command)
        return
    with pytest.raises(Fault) as caught:
        require_taken(arguments, command)
    fault = caught.value
    assert fault.id == "CLI02" and flag in fault.what and command in fault.what and fault.why and fault.fix


def test_several_flags_without_effect_are_named_at_once() -> None:
    with pytest.raises(Fault) as caught:
        require_taken(parse(["--base", "tiny.yaml", "-t", "-n", "mine", "-s", "7"]), "python -m lun.memory")
    assert caught.value.what == "--train, --name and --seed have no effect in python -m lun.memory"


def heard(command: str, words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command gives on: the code that it admits, its configuration, whether faults come with tracebacks."""
    module: Any = importlib.import_module(ITS_MODULE[command])
    given: dict[str, Any] = {}

    def read(arguments: Arguments, resume: None) -> None:
        given["config"] = (arguments.base, arguments.data_root, arguments.init_from, arguments.overrides)
        raise Fault("CFG01", "it goes no further")

    def admit(*packages: object, **families: object) -> None:
        given["code"] = (packages, families)

    monkeypatch.delenv("LUN_DEBUG", raising=False)
    monkeypatch.setattr(
        module, "admit_user_code", lambda *packages, **families: given.update(code=(packages, families))
    )
    monkeypatch.setattr(module, "read_settings", read)
    assert module.run(words) == 2
    return given | {"traceback": os.environ.pop("LUN_DEBUG", None)}


@pytest.mark.parametrize(
    "command, flag",
    [(command, flag) for command, flag in CASES if command != SWEEP and is_taken(command, flag)],
)
def test_a_flag_that_a_command_takes_has_its_effect(
    command: str, flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if FLAGS[flag].field in ANSWERED:
        assert borrowed_words(words_with(flag), command, "usage\n", "") is None and capsys.readouterr().out
        return
    assert heard(command, words_with(flag), monkeypatch) != heard(command, ["--base", "tiny.yaml"], monkeypatch)


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if is_taken(SWEEP, flag)])
def test_a_flag_that_a_sweep_takes_is_given_to_each_run(flag: str) -> None:
    words = words_with(flag)
    assert [trial.words for trial in product_of([*words, "seed=1,2"])] == [(*words, "seed=1"), (*words, "seed=2")]


@pytest.mark.parametrize("command", ITS_MODULE)
def test_a_shell_offers_the_flags_that_a_command_takes_alone(command: str) -> None:
    offered = shlex.split(script_of_training("bash", command).partition("option_strings=(")[2].partition(")")[0])
    assert FLAGS.keys() & offered == {flag for flag in FLAGS if is_taken(command, flag)}
