"""Which prompts a model can draw."""

from typing import Any

import pytest
from support.models import tiny_model

from ldm.errors import Fault
from ldm.models.diffusion.ddpm import LatentDiffusion
from lun.previews.drawable import require_previewable, sides_of
from lun.previews.prompt_grammar import Prompt


@pytest.fixture(scope="module")
def model() -> LatentDiffusion:
    found = tiny_model()
    found.configure_model()
    return found


def test_a_prompt_says_one_side_or_both_or_none(model: LatentDiffusion) -> None:
    said: list[dict[str, Any]] = [{}, {"width": 16}, {"width": 16, "height": 24}]
    assert [sides_of(Prompt("a", settings), model) for settings in said] == [None, (4, 8), (12, 8)]


@pytest.mark.parametrize("settings", [{}, {"width": 16, "steps": 3, "guidance": 3.0, "scheduler": "dpmpp"}], ids=str)
def test_what_a_model_can_draw_passes(settings: dict[str, Any], model: LatentDiffusion) -> None:
    require_previewable(Prompt("a", settings), {"ddim_steps": 2}, model)


@pytest.mark.parametrize(
    "settings",
    [{"width": 9}, {"steps": 1001}, {"prompt_2": "b"}, {"guidance": 3.0, "guidance_rescale": 2.0}],
    ids=str,
)
def test_what_it_cannot_is_refused_with_the_place_of_the_prompt(
    settings: dict[str, Any], model: LatentDiffusion
) -> None:
    with pytest.raises(Fault) as caught:
        require_previewable(Prompt("a", settings, "p.txt:3"), {}, model)
    assert caught.value.where == "p.txt:3" and "--size" not in caught.value.fix


def test_a_size_near_by_is_said_as_prompts_say_it(model: LatentDiffusion) -> None:
    with pytest.raises(Fault, match="19x8") as caught:
        require_previewable(Prompt("a", {"width": 19}), {}, model)
    assert caught.value.fix == "--w 18 --h 8"
