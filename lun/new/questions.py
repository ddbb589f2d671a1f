"""The five questions of `--new`, asked of a person at a terminal; each has a flag that answers it as well."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ldm.errors import Fault
from lun.cli.arguments import Arguments
from lun.config.reading.presets import presets

KINDS: Mapping[str, str] = {
    "lora": "a small file beside the model: a style, a character, a thing",
    "ti": "a word of one's own and nothing else: smallest, and least able",
    "whole": "the whole network: most able, needs most memory and pictures",
}
WHOLE = "whole"
STEPS = "2000"
LENGTH = ("lightning.trainer.max_steps", "lightning.trainer.max_epochs")
ACCELERATOR = "lightning.trainer.accelerator"

Take = Callable[[Arguments, str], Arguments]
"""The command line with an answer in it. Raises `Fault` CLI03 for what is none."""


@dataclass(frozen=True)
class Question:
    """What is asked where the command line does not say it.

    about    what can be answered, line by line
    flag     what answers it on a command line, as an example
    usual    what an empty answer means; '' where one has to be given
    """

    text: str
    about: Sequence[str]
    flag: str
    take: Take
    answered: Callable[[Arguments], bool]
    usual: str = ""


def questions(card: float | None) -> list[Question]:
    """All five; `card`: GiB of the card that was found, None without one."""
    models = [preset.name for preset in presets() if preset.group == "models"]
    return [
        Question("What is to be trained?", _lines(KINDS), "--base lora", _take_kind, _names_kind, "lora"),
        Question(
            "From which weights?",
            [f"{', '.join(models)}; with a file of your own behind it: sdxl models/mine.safetensors"],
            "--base sdxl",
            _take_weights,
            lambda given: _model_of(given.base) is not None,
        ),
        Question("Where are the pictures?", ["a folder"], "--data_root DIR", _take_folder, lambda g: bool(g.data_root)),
        Question(
            "For which card?",
            ["its memory in GB, or cpu"],
            "--fit 12",
            _take_card,
            lambda given: given.fit is not None or _says(given, ACCELERATOR),
            "cpu" if card is None else f"{card:.0f}",
        ),
        Question(
            "For how long?",
            ["a number of steps, or of times through all pictures: 20 epochs"],
            "--max_steps 2000",
            _take_length,
            lambda given: any(_says(given, path) for path in LENGTH),
            STEPS,
        ),
    ]


def answered(arguments: Arguments, card: float | None, ask: Callable[[str], str] | None) -> Arguments:
    """The command line with all answers.

    ask  puts a question to a person; None where there is nobody. Then `Fault` CLI03 names what is missing
    """
    every = questions(card)
    missing = [question for question in every if not question.answered(arguments)]
    if ask is None:
        if needed := [question for question in missing if not _goes_without(question, arguments)]:
            raise _unanswered(needed)
        return arguments
    for question in missing:
        arguments = _asked(question, arguments, f"{every.index(question) + 1}/{len(every)}", ask)
    return arguments


def _asked(question: Question, arguments: Arguments, place: str, ask: Callable[[str], str]) -> Arguments:
    """Until the answer can be used."""
    usual = f" [{question.usual}]" if question.usual else ""
    text = "\n".join([f"{place}  {question.text}", *(f"     {line}" for line in question.about), f"   {usual}> "])
    while True:
        try:
            said = ask(text).strip() or question.usual
        except EOFError:
            raise _unanswered([question]) from None
        try:
            return question.take(arguments, said)
        except Fault as fault:
            text = f"     {fault.what}\n   {usual}> "


def _goes_without(question: Question, arguments: Arguments) -> bool:
    """What to train is the whole network where nothing is said beside a model, as for any command line."""
    return question.take is _take_kind and bool(arguments.base)


def _unanswered(missing: Sequence[Question]) -> Fault:
    flags = [question.flag for question in missing]
    return Fault(
        "CLI03",
        "--new lacks " + ", ".join(flags),
        why="there is no terminal at which to ask: " + " ".join(question.text for question in missing),
        fix="python main.py --new --base sdxl lora --data_root DIR --fit 12 --max_steps 2000",
    )


def _lines(choices: Mapping[str, str]) -> list[str]:
    return [f"{name:<6} {about}" for name, about in choices.items()]


def _take_kind(arguments: Arguments, said: str) -> Arguments:
    if said not in KINDS:
        raise Fault("CLI03", f"{said!r} is none of {', '.join(KINDS)}")
    return arguments if said == WHOLE else replace(arguments, base=(*arguments.base, said))


def _names_kind(arguments: Arguments) -> bool:
    return any(name != _model_of(arguments.base) for name in arguments.base)


def _model_of(base: Sequence[str]) -> str | None:
    """Which of these configs says a model: a preset for one, or a file of one's own."""
    overlays = {preset.name for preset in presets() if preset.group != "models"}
    return next((name for name in base if Path(name).stem not in overlays), None)


def _take_weights(arguments: Arguments, said: str) -> Arguments:
    name, _, file = said.partition(" ")
    if name not in [preset.name for preset in presets() if preset.group == "models"]:
        raise Fault("CLI03", f"{name!r} is no model of these" if name else "one of these is needed")
    taken = replace(arguments, base=(name, *arguments.base))
    if not file.strip():
        return taken
    if not Path(file.strip()).expanduser().exists():
        raise Fault("CLI03", f"{file.strip()} is not there")
    return replace(taken, init_from=str(Path(file.strip()).expanduser().absolute()))


def _take_folder(arguments: Arguments, said: str) -> Arguments:
    folder = Path(said).expanduser()
    if not said or not folder.is_dir():
        raise Fault("CLI03", f"{said!r} is no folder that is there")
    return replace(arguments, data_root=(str(folder),))


def _take_card(arguments: Arguments, said: str) -> Arguments:
    if said.lower() == "cpu":
        return _with(arguments, f"{ACCELERATOR}=cpu")
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:gi?b)?", said.lower())
    if match is None or not float(match[1]):
        raise Fault("CLI03", f"{said!r} is no amount of memory, such as 12, nor cpu")
    return replace(arguments, fit=float(match[1]))


def _take_length(arguments: Arguments, said: str) -> Arguments:
    match = re.fullmatch(r"(\d+)\s*(steps|epochs)?", said.lower())
    if match is None or not int(match[1]):
        raise Fault("CLI03", f"{said!r} is no number of steps, nor of epochs")
    return _with(arguments, f"{LENGTH[match[2] == 'epochs']}={match[1]}")


def _with(arguments: Arguments, override: str) -> Arguments:
    return replace(arguments, overrides=(*arguments.overrides, override))


def _says(arguments: Arguments, path: str) -> bool:
    return any(override.startswith(f"{path}=") for override in arguments.overrides)
