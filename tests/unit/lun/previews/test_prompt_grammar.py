"""What a prompt may say, as a line and in YAML."""

from pathlib import Path
from typing import Any

import pytest

from ldm.errors import Fault
from lun.previews.prompt_grammar import KINDS, KOHYA, Prompt, read_entry, read_prompt, read_prompts

VALUES: dict[str, Any] = {
    "prompt_2": "at dusk",
    "prompt_3": "a fox at dusk",
    "negative": "blurry, bad -- really",
    "width": 512,
    "height": 768,
    "seed": 7,
    "guidance": 7.5,
    "guidance_rescale": 0.7,
    "guidance_low": 0.28,
    "guidance_high": 5.42,
    "steps": 30,
    "scheduler": "euler",
}


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_line_takes_kohyas_options_in_any_order(tmp_path: Path) -> None:
    text = "# heading\n\na cat, on a roof --s 30 --n blurry, bad -- really --w 512 --h 768 --d 7 --l 7.5\nélan\n"
    assert read_prompts(write(tmp_path / "p.txt", text)) == [
        Prompt(
            "a cat, on a roof",
            {"steps": 30, "negative": "blurry, bad -- really", "width": 512, "height": 768, "seed": 7, "guidance": 7.5},
        ),
        Prompt("élan", {}),
    ]


def test_a_line_and_a_map_can_say_the_same(tmp_path: Path) -> None:
    assert {"prompt", *VALUES} == KINDS.keys()
    line = "a fox " + " ".join(f"--{name.replace('_', '-')} {value}" for name, value in VALUES.items())
    assert read_prompt(line, "") == read_entry({"prompt": "a fox", **VALUES}, "") == Prompt("a fox", VALUES)
    short = "a fox " + " ".join(f"--{letter.upper()} {VALUES[name]}" for letter, name in KOHYA.items())
    assert read_prompt(short, "").settings == {name: VALUES[name] for name in KOHYA.values()}


def test_a_text_in_yaml_is_a_line_too(tmp_path: Path) -> None:
    text = "- a cat --d 3\n- {prompt: a dog --ss k_euler, negative: wet, guidance: 3}\n- 2022\n"
    assert read_prompts(write(tmp_path / "p.yaml", text)) == [
        Prompt("a cat", {"seed": 3}),
        Prompt("a dog", {"negative": "wet", "guidance": 3, "scheduler": "euler"}),
        Prompt("2022", {}),
    ]
    file = write(tmp_path / "p.json", '["a cat", {"prompt": "a dog", "seed": 3}]')
    assert read_prompts(file) == [Prompt("a cat", {}), Prompt("a dog", {"seed": 3})]


def test_a_prompt_knows_where_it_is_written(tmp_path: Path) -> None:
    lines, entries = write(tmp_path / "p.txt", "# one\n\na cat\n"), write(tmp_path / "p.yaml", "# one\n\n- a cat\n")
    assert [read_prompts(file)[0].where for file in (lines, entries)] == [f"{lines}:3", f"{entries}:3"]


BROKEN = {
    "--x 3": "unknown option --x",
    "--w=512": "unknown option --w=512",
    "--w512": "unknown option --w512",
    "--5": "unknown option --5",
    "--negativ wet": "did you mean negative?",
    "--prompt b": "unknown option --prompt",
    "--s many": "takes a number, not 'many'",
    "--s": "takes a number, not ''",
    "--s 3.5": "takes a number, not '3.5'",
    "--s 0": "a whole number from 1 on, not 0",
    "--w -8": "a whole number from 1 on, not -8",
    "--d -1": "a whole number from 0 on, not -1",
    "--l nan": "a finite number from 0 on, not nan",
    "--l 1e999": "a finite number from 0 on, not inf",
    "--ss euler_a": "it can be ddim, euler, dpmpp",
    "--s 3 --steps 4": "says its steps twice",
}
BROKEN_MAPS = {
    "{prompt: a, step: 3}": "did you mean steps?",
    "{prompt: a, steps: '3'}": "expected int, got '3'",
    "{prompt: a, steps: 0}": "a whole number from 1 on",
    "{prompt: a, scheduler: plms}": "no scheduler 'plms'",
    "{prompt: a, steps: 3, steps: 4}": "says its steps twice",
    "{prompt: a --s 3, steps: 4}": "says its steps twice",
    "{prompt: a --q 3}": "unknown option --q",
    "{negative: a}": "this is no prompt",
    "null": "this is no prompt",
    "true": "this is no prompt",
}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        *(("p.txt", f"a cat\na dog {options}\n", told) for options, told in BROKEN.items()),
        *(("p.yaml", f"- a cat\n- {entry}\n", told) for entry, told in BROKEN_MAPS.items()),
    ],
)
def test_what_a_prompt_cannot_say_is_refused_with_its_line(name: str, text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(Fault) as caught:
        read_prompts(write(tmp_path / name, text))
    assert caught.value.id == "CFG03" and caught.value.where == f"{tmp_path / name}:2"
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("p.txt", "# nothing\n", "no prompts"),
        ("p.yaml", "a: b\n", "not a list"),
        ("p.yaml", "- [\n", "not valid YAML"),
        ("p.toml", "[prompt]\n", "is TOML"),
    ],
)
def test_a_file_without_a_list_of_prompts_is_refused(name: str, text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(Fault, match="CFG02") as caught:
        read_prompts(write(tmp_path / name, text))
    assert told in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="CFG01"):
        read_prompts(tmp_path / "no.txt")
