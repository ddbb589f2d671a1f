"""The prompts of previews."""

from pathlib import Path

import pytest

from ldm.errors import Fault
from lun.previews.prompt_grammar import Prompt
from lun.previews.prompts import Prompts, drawn_at_once, how_of, labels_of, seeds_of


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_prompt_may_say_what_further_text_encoders_are_told(tmp_path: Path) -> None:
    file = write(tmp_path / "p.yaml", "- {prompt: a, prompt_2: b}\n- {prompt: a, prompt_3: c}\n- a\n")
    assert [prompt.caption for prompt in Prompts(str(file), 1.0).current] == [("a", "b"), ("a", "a", "c"), "a"]


def test_prompts_of_previews_are_read_by_the_same_law(tmp_path: Path) -> None:
    lines = ["a fox --n blurry --d 7 --l 5 --w 16 --ss euler", {"prompt": "an owl", "steps": 3}]
    said = {"negative": "blurry", "seed": 7, "guidance": 5.0, "width": 16, "scheduler": "euler"}
    expected = [Prompt("a fox", said), Prompt("an owl", {"steps": 3})]
    file = write(tmp_path / "p.txt", f"{lines[0]}\nan owl --s 3\n")
    assert Prompts(lines, 1.0).current == Prompts(str(file), 1.0).current == expected
    assert seeds_of(expected) == [7, 43]


@pytest.mark.parametrize(
    ("line", "told"),
    [("a fox --n blurry", "the negative of the prompt 'a fox' has no effect"), ("a fox --q 3", "unknown option --q")],
)
def test_what_a_preview_cannot_do_is_refused_by_name(line: str, told: str) -> None:
    with pytest.raises(Fault) as caught:
        Prompts(["an owl", line], 1.0)
    assert told in caught.value.what
    assert caught.value.where == "lightning.callbacks.image_logger.params.prompts[1]"


def test_what_refines_no_guidance_is_refused_by_name(tmp_path: Path) -> None:
    file = write(tmp_path / "p.yaml", "- {prompt: a fox, guidance_low: 0.3}\n")
    assert Prompts(str(file), 5.0).current[0].settings == {"guidance_low": 0.3}
    with pytest.raises(Fault, match="the guidance_low of the prompt 'a fox' has no effect"):
        Prompts(str(file), 1.0)


def test_prompts_that_come_later_are_judged_like_the_first_ones(tmp_path: Path) -> None:
    def at_most_16(prompt: Prompt) -> None:
        if prompt.settings.get("width", 0) > 16:
            raise Fault("CLI03", "too wide")

    file = write(tmp_path / "p.txt", "a fox --w 16\n")
    prompts = Prompts(str(file), 1.0)
    prompts.require(at_most_16)
    write(file, "an owl --w 32\n")
    assert [prompt.text for prompt in prompts.read_again()] == ["a fox"]
    with pytest.raises(Fault, match="too wide"):
        Prompts(str(file), 1.0).require(at_most_16)


def test_prompts_that_say_how_are_drawn_apart() -> None:
    prompts = [Prompt("a", {}), Prompt("b", {}), Prompt("c", {"steps": 3}), Prompt("d", {"steps": 3}), Prompt("e", {})]
    assert list(drawn_at_once(prompts, 4)) == [[0, 1], [2, 3], [4]]
    assert list(drawn_at_once(prompts[:2], 1)) == [[0], [1]]
    assert list(drawn_at_once([Prompt("a", {"width": 8}), Prompt("a", {"scheduler": "euler"})], 4)) == [[0], [1]]


def test_prompts_of_one_text_and_seed_are_told_apart_by_what_they_say() -> None:
    prompts = [Prompt("a", {"seed": 43, "guidance": 3}), Prompt("a", {}), Prompt("b", {"guidance": 3})]
    assert labels_of(prompts) == ["a (guidance 3)", "a", "b"]


def test_a_prompt_is_drawn_as_it_says_and_else_as_the_options_do() -> None:
    options = {"ddim_steps": 25, "unconditional_guidance_scale": 5.0, "guidance_rescale": 0.7}
    assert how_of(Prompt("a", {}), options) == {"steps": 25, "guidance": 5.0, "guidance_rescale": 0.7}
    said = {"steps": 3, "guidance": 1, "scheduler": "dpmpp"}
    assert how_of(Prompt("a", said), options) == {"steps": 3, "guidance": 1.0, "scheduler": "dpmpp"}
    assert how_of(Prompt("a", {}), {}) == {"steps": 50, "guidance": 1.0}
