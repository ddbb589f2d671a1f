"""Which pictures a command draws, and what each says about itself."""

from typing import Any

import pytest
from support.models import tiny_model

from ldm.diffusion.sampling.guidance import Guidance
from ldm.errors import Fault
from ldm.models.diffusion.ddpm import LatentDiffusion
from lun.previews.prompt_grammar import Prompt
from lun.sample.arguments import parse
from lun.sample.metadata import parameters
from lun.sample.opened_model import SampledModel
from lun.sample.pictures import Picture, batches, list_pictures


@pytest.fixture(scope="module")
def model() -> LatentDiffusion:
    found = tiny_model()
    found.configure_model()
    return found


def listed(model: LatentDiffusion, line: str, *prompts: Prompt, **run: Any) -> list[Picture]:
    return list_pictures(prompts or [Prompt("a", {}), Prompt("b", {})], parse(["RUN", *line.split()]), run, model)


def test_seeds_count_from_the_first_unless_a_prompt_has_its_own(model: LatentDiffusion) -> None:
    found = listed(model, "--count 2 --seed 5", Prompt("a", {}), Prompt("b", {"seed": 90}), Prompt("c", {}))
    assert [picture.seed for picture in found] == [5, 6, 90, 91, 9, 10]
    assert [picture.seed for picture in listed(model, "")] == [42, 43]  # as the image logger's


def test_a_prompts_setting_wins_over_the_lines_and_that_over_the_runs(model: LatentDiffusion) -> None:
    own = Prompt("a", {"steps": 3})
    assert [p.steps for p in listed(model, "--steps 7", own, Prompt("b", {}), steps=25)] == [3, 7]
    found = listed(model, "", guidance=3.0, prompts=["x"])[0]
    assert (found.steps, found.guidance, found.width, found.height) == (50, 3.0, 8, 8)


def test_guidance_is_refined_by_prompt_line_or_run_and_not_where_there_is_none(model: LatentDiffusion) -> None:
    line = "--guidance 4 --guidance-rescale 0.7 --guidance-high 5"
    first, second = listed(model, line, Prompt("a", {}), Prompt("b", {"guidance_rescale": 0.2}))
    assert first.how.guidance == Guidance(4.0, 0.7, high=5.0) and second.how.guidance == Guidance(4.0, 0.2, high=5.0)
    assert first.alike != second.alike
    (of_run,) = listed(model, "", Prompt("a", {}), guidance=3.0, guidance_low=0.3)
    assert of_run.how.guidance == Guidance(3.0, low=0.3)
    (unguided,) = listed(model, "--guidance 1", Prompt("a", {}), guidance=3.0, guidance_low=0.3)
    assert unguided.how.guidance == Guidance()
    with pytest.raises(Fault, match="no effect without guidance"):
        listed(model, "--guidance 1 --guidance-rescale 0.7")


def test_a_negative_that_no_guidance_heeds_is_refused(model: LatentDiffusion) -> None:
    own = Prompt("a", {"negative": "wet", "guidance": 1.0}, "p.txt:1")
    with pytest.raises(Fault, match="the negative of the prompt 'a' has no effect") as caught:
        listed(model, "", own)
    assert caught.value.where == "p.txt:1"
    with pytest.raises(Fault, match="--negative has no effect"):
        listed(model, "--negative wet --guidance 1")
    assert listed(model, "--negative wet", Prompt("a", {"guidance": 1.0}), Prompt("b", {}))


def test_a_solver_goes_by_the_names_of_other_programs_too(model: LatentDiffusion) -> None:
    assert {picture.scheduler for picture in listed(model, "--scheduler k_euler")} == {"euler"}


def test_a_batch_holds_neighbours_that_are_drawn_alike(model: LatentDiffusion) -> None:
    prompts = [Prompt(text, {"steps": steps}) for text, steps in zip("abcde", (2, 2, 2, 3, 2), strict=True)]
    found = [[p.prompt for p in batch] for batch in batches(listed(model, "", *prompts), 2)]
    assert found == [["a", "b"], ["c"], ["d"], ["e"]]


@pytest.mark.parametrize("line", ["--size 9", "--size 8x3", "--scheduler plms", "--steps 1001"])
def test_what_cannot_be_drawn_is_refused_before_anything_is(line: str, model: LatentDiffusion) -> None:
    with pytest.raises(Fault):
        listed(model, line)


@pytest.mark.parametrize(
    "settings",
    [{"guidance": float("nan")}, {"guidance": -1.0}, {"steps": 0}, {"width": -8}, {"prompt_2": "b"}],
    ids=str,
)
def test_what_a_prompt_says_itself_is_judged_too(settings: dict[str, float], model: LatentDiffusion) -> None:
    with pytest.raises(Fault):
        listed(model, "", Prompt("a", settings))


def test_sides_are_whole_patches(model: LatentDiffusion, monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed(model, "--size 24")
    monkeypatch.setattr(type(model), "side_unit", lambda self: 16)
    with pytest.raises(Fault, match="24x24") as caught:
        listed(model, "--size 24")
    assert caught.value.why == "sides are multiples of 16 pixels" and caught.value.fix == "--size 16x16"


def test_the_parameters_are_those_of_web_uis() -> None:
    picture = Picture("a cat\non a roof", "blurry", 7, 512, 768, 30, 7.5, "dpmpp")
    source = SampledModel(None, "cats, v2", "fe4efff1e1" + "0" * 54)  # type: ignore[arg-type]
    first, second, negative, settings = parameters(picture, source).split("\n")
    assert (first, second, negative) == ("a cat", "on a roof", "Negative prompt: blurry")
    assert settings.startswith(
        "Steps: 30, Sampler: DPM++ 2M, CFG scale: 7.5, Seed: 7, Size: 512x768, "
        'Model hash: fe4efff1e1, Model: "cats, v2", Version: lun '
    )
