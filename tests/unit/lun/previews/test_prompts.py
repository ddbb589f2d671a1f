"""Files of prompts."""

from pathlib import Path

import pytest

from ldm.errors import Fault
from lun.previews.prompts import Prompt, Prompts, drawn_at_once, read_prompts, seeds_of


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


def test_yaml_is_a_list_of_texts_and_maps(tmp_path: Path) -> None:
    text = "- a cat\n- {prompt: a dog, negative: wet, guidance: 3, scheduler: euler}\n"
    assert read_prompts(write(tmp_path / "p.yaml", text)) == [
        Prompt("a cat", {}),
        Prompt("a dog", {"negative": "wet", "guidance": 3, "scheduler": "euler"}),
    ]


def test_a_prompt_may_say_what_further_text_encoders_are_told(tmp_path: Path) -> None:
    found = read_prompts(write(tmp_path / "p.yaml", "- {prompt: a, prompt_2: b}\n- {prompt: a, prompt_3: c}\n- a\n"))
    told = [("a", "b"), ("a", "a", "c"), "a"]
    for prompts in (found, Prompts(str(tmp_path / "p.yaml"), 1.0).current):
        assert [prompt.caption for prompt in prompts] == told


@pytest.mark.parametrize(
    ("name", "text", "fault", "told"),
    [
        ("p.txt", "a cat\na dog --x 3\n", "CFG03", "p.txt:2"),
        ("p.txt", "a cat --s many\n", "CFG03", "'many'"),
        ("p.txt", "# nothing\n", "CFG02", "no prompts"),
        ("p.yaml", "- {prompt: a, step: 3}\n", "CFG03", "did you mean steps?"),
        ("p.yaml", "- {prompt: a, steps: '3'}\n", "CFG03", "expected int, got '3'"),
        ("p.yaml", "- {negative: a}\n", "CFG03", "entry 1"),
        ("p.yaml", "a: b\n", "CFG02", "not a list"),
        ("p.yaml", "- [\n", "CFG02", "not valid YAML"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(
    name: str, text: str, fault: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(Fault) as caught:
        read_prompts(write(tmp_path / name, text))
    assert caught.value.id == fault and told in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="CFG01"):
        read_prompts(tmp_path / "no.txt")


def test_prompts_of_previews_are_read_by_the_same_law(tmp_path: Path) -> None:
    lines = ["a fox --n blurry --d 7 --l 5", "an owl"]
    expected = [Prompt("a fox", {"negative": "blurry", "seed": 7, "guidance": 5.0}), Prompt("an owl", {})]
    file = write(tmp_path / "p.txt", "\n".join(lines))
    assert Prompts(lines, 1.0).current == Prompts(str(file), 1.0).current == expected
    assert seeds_of(expected) == [7, 43]


@pytest.mark.parametrize(
    ("line", "guidance", "told"),
    [
        ("a fox --w 16", 5.0, "width of the prompt 'a fox' has no effect on a preview"),
        ("a fox --n blurry", 1.0, "the negative of the prompt 'a fox' has no effect"),
        ("a fox --q 3", 5.0, "unknown option --q"),
    ],
)
def test_what_a_preview_cannot_do_is_refused_by_name(line: str, guidance: float, told: str) -> None:
    with pytest.raises(Fault) as caught:
        Prompts([line], guidance)
    assert told in caught.value.what


def test_what_refines_no_guidance_is_refused_by_name(tmp_path: Path) -> None:
    file = write(tmp_path / "p.yaml", "- {prompt: a fox, guidance_low: 0.3}\n")
    assert Prompts(str(file), 5.0).current[0].settings == {"guidance_low": 0.3}
    with pytest.raises(Fault, match="the guidance_low of the prompt 'a fox' has no effect"):
        Prompts(str(file), 1.0)


def test_prompts_that_say_how_are_drawn_apart() -> None:
    prompts = [Prompt("a", {}), Prompt("b", {}), Prompt("c", {"steps": 3}), Prompt("d", {"steps": 3}), Prompt("e", {})]
    assert list(drawn_at_once(prompts, 4)) == [[0, 1], [2, 3], [4]]
    assert list(drawn_at_once(prompts[:2], 1)) == [[0], [1]]
