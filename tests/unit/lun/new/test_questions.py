"""What is asked of a person who has said little, and what is made of the answers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ldm.errors import Fault
from lun.cli.arguments import Arguments
from lun.cli.parser import parse
from lun.new.questions import answered


def says(*answers: str) -> Callable[[str], str]:
    """A person who gives these answers in turn, and then goes away."""
    left = list(answers)

    def ask(text: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    return ask


def test_five_answers_are_a_command_line(tmp_path: Path) -> None:
    made = answered(Arguments(new=True), None, says("lora", "sdxl", str(tmp_path), "12 GB", "20 epochs"))
    assert made.base == ("sdxl", "lora") and made.data_root == (str(tmp_path),) and made.fit == 12
    assert made.overrides == ("lightning.trainer.max_epochs=20",)


def test_an_empty_answer_is_the_usual_one(tmp_path: Path) -> None:
    made = answered(Arguments(new=True), 23.6, says("", "sd15", str(tmp_path), "", ""))
    assert made == Arguments(
        new=True,
        base=("sd15", "lora"),
        data_root=(str(tmp_path),),
        fit=24,
        overrides=("lightning.trainer.max_steps=2000",),
    )
    on_cpu = answered(Arguments(new=True), None, says("whole", "sd15", str(tmp_path), "", "7"))
    assert on_cpu.base == ("sd15",) and on_cpu.fit is None
    assert on_cpu.overrides == ("lightning.trainer.accelerator=cpu", "lightning.trainer.max_steps=7")


def test_what_flags_say_is_not_asked() -> None:
    given = parse(["--new", "--base", "sdxl", "lora", "--data_root", "DIR", "--fit", "12", "--max_steps", "9"])
    assert answered(given, None, None) == answered(given, None, says()) == given


@pytest.mark.parametrize(
    ("place", "odd"), [(0, "what"), (1, ""), (1, "sdxl not/there.safetensors"), (2, "not/there"), (3, "big"), (4, "0")]
)
def test_an_answer_that_makes_no_sense_is_asked_for_again(tmp_path: Path, place: int, odd: str) -> None:
    right = ["ti", f"sdxl {tmp_path}", str(tmp_path), "8", "100"]
    said = [*right[:place], odd, *right[place:]]
    made = answered(Arguments(new=True), None, says(*said))
    assert made == answered(Arguments(new=True), None, says(*right)) and made.init_from == str(tmp_path)


def test_without_a_terminal_what_is_missing_is_named() -> None:
    with pytest.raises(Fault, match="CLI03") as refused:
        answered(parse(["--new", "--fit", "12"]), None, None)
    assert refused.value.what == "--new lacks --base lora, --base sdxl, --data_root DIR, --max_steps 2000"
    with pytest.raises(Fault, match="CLI03") as refused:
        answered(parse(["--new", "--base", "sd15"]), None, None)
    assert "--base" not in refused.value.what
    with pytest.raises(Fault, match="CLI03"):
        answered(Arguments(new=True), None, says("lora"))
