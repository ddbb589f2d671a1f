"""Caption dropout by slot."""

import pytest
import torch

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.errors import Fault
from ldm.modules.encoders.conditioner import Conditioner


class Recorder:
    """An embedder that remembers what it was told."""

    def __init__(self) -> None:
        self.captions: list[str] = []

    def __call__(self, captions: list[str]) -> Conditioning:
        self.captions = captions
        return Conditioning(context=torch.zeros(len(captions), 1, 1))


def told(slots: list[int], rate: float, drawn: bool = True) -> list[str]:
    recorder = Recorder()
    captions = [f"caption {slot}" for slot in slots]
    draws = BatchDraws(3, slots) if drawn else None
    Conditioner(recorder, "text", rate)({"text": captions}, draws, (8, 8))
    return recorder.captions


def test_whole_captions_are_dropped_at_the_rate() -> None:
    captions = told(list(range(2000)), 0.1)
    assert 150 < captions.count("") < 250
    assert all(caption in ("", f"caption {slot}") for slot, caption in enumerate(captions))


def test_what_is_dropped_follows_from_the_slot_alone() -> None:
    together = told(list(range(40)), 0.5)
    assert together == told(list(range(20)), 0.5) + told(list(range(20, 40)), 0.5)
    assert told(list(reversed(range(40))), 0.5) == together[::-1]


def test_without_draws_nothing_is_dropped() -> None:
    assert "" not in told(list(range(40)), 0.9, drawn=False)


@pytest.mark.parametrize(("rate", "dropped"), [(0.0, 0), (1.0, 40)])
def test_the_ends_of_the_rate_are_exact(rate: float, dropped: int) -> None:
    assert told(list(range(40)), rate).count("") == dropped


def test_each_example_may_have_a_rate_of_its_own() -> None:
    recorder, slots = Recorder(), list(range(400))
    batch = {"caption": ["words"] * 400, "ucg_rate": torch.tensor([0.0, 1.0, -1.0, 0.5] * 100)}
    Conditioner(recorder, ucg_rate=0.1)(batch, BatchDraws(0, slots), (8, 8))
    dropped = [recorder.captions[first::4].count("") for first in range(4)]
    assert dropped[0] == 0 and dropped[1] == 100
    assert dropped[2] < 25 < dropped[3]


def test_a_caption_for_an_encoder_that_there_is_not_is_refused() -> None:
    with pytest.raises(Fault, match="captions for 2 text encoders have no effect: the model has 1") as caught:
        Conditioner(Recorder())({"caption": ["a"], "caption_2": ["b"]}, None, (8, 8))
    assert (caught.value.id, caught.value.where) == ("CFG08", "caption_2")
    same = Recorder()
    Conditioner(same)({"caption": ["a"], "caption_2": ["a"]}, None, (8, 8))
    assert same.captions == ["a"]


def test_a_rate_outside_its_range_is_refused() -> None:
    with pytest.raises(Fault, match="between 0 and 1"):
        Conditioner(Recorder(), ucg_rate=10)


def test_guidance_leads_away_from_empty_captions_or_what_is_said() -> None:
    recorder = Recorder()
    context = Conditioner(recorder, ucg_rate=0.5).away_from(["", "blurry"], (8, 8)).context
    assert recorder.captions == ["", "blurry"]
    assert context is not None
    assert len(context) == 2


class Sized:
    """An embedder of a network that is told sizes: a caption's length everywhere, 1 for none."""

    takes_sizes = True

    def __init__(self, unconditional: str) -> None:
        self.unconditional = unconditional

    def __call__(self, captions: list[str]) -> Conditioning:
        length = torch.tensor([1.0 + len(caption) for caption in captions])
        return Conditioning(length.view(-1, 1, 1).expand(-1, 2, 3), length.view(-1, 1).expand(-1, 3))


def states(told: Conditioning) -> tuple[list[float], list[float]]:
    """The one value of each row's context and pooled vector."""
    assert told.context is not None and told.pooled is not None
    assert all(len(row.unique()) == 1 for tensor in (told.context, told.pooled) for row in tensor)
    return told.context[:, 0, 0].tolist(), told.pooled[:, 0].tolist()


@pytest.mark.parametrize(("unconditional", "nothing"), [("zeros", 0.0), ("empty caption", 1.0)])
def test_one_law_says_what_stands_for_a_dropped_caption(unconditional: str, nothing: float) -> None:
    conditioner = Conditioner(Sized(unconditional), ucg_rate=0.5)
    slots = list(range(40))
    told = conditioner({"caption": ["abc"] * 40}, BatchDraws(3, slots), (8, 8))
    dropped = (BatchDraws(3, slots).uniform("caption_dropout") < 0.5).tolist()
    assert 10 < sum(dropped) < 30
    assert states(told) == ([nothing if drop else 4.0 for drop in dropped],) * 2
    assert states(conditioner.away_from(["", "ab", ""], (8, 8))) == ([nothing, 3.0, nothing],) * 2


def test_an_empty_caption_that_was_not_dropped_is_encoded() -> None:
    conditioner = Conditioner(Sized("zeros"), ucg_rate=0.0)
    assert states(conditioner({"caption": [""]}, BatchDraws(3, [0]), (8, 8)))[0] == [1.0]
    assert states(conditioner.on([""], (8, 8)))[0] == [1.0]


def sizes_of(told: Conditioning) -> list[list[float]]:
    assert told.sizes is not None and told.sizes.dtype == torch.float32
    found: list[list[float]] = told.sizes.tolist()
    return found


def test_sizes_of_the_batch_follow_height_before_width() -> None:
    batch = {
        "caption": ["a", "b"],
        "original_size": torch.tensor([[600, 800], [10, 20]]),
        "crop": torch.tensor([[0, 3], [1, 0]]),
        "target_size": torch.tensor([[512, 640], [64, 64]]),
    }
    told = Conditioner(Sized("zeros"), ucg_rate=1.0)(batch, BatchDraws(0, [0, 1]), (1, 1))
    assert sizes_of(told) == [[600, 800, 0, 3, 512, 640], [10, 20, 1, 0, 64, 64]]


def test_a_batch_that_tells_no_sizes_holds_whole_pictures() -> None:
    conditioner = Conditioner(Sized("zeros"))
    assert sizes_of(conditioner({"caption": ["a", "b"]}, None, (48, 64))) == [[48, 64, 0, 0, 48, 64]] * 2
    known = {"caption": ["a"], "original_size": torch.tensor([[512, 640]])}
    assert sizes_of(conditioner(known, None, (48, 64))) == [[512, 640, 0, 0, 48, 64]]


def test_samples_are_told_to_be_whole_pictures_of_their_size() -> None:
    conditioner = Conditioner(Sized("zeros"))
    for told in (conditioner.on(["a"], (48, 64)), conditioner.away_from([""], (48, 64))):
        assert sizes_of(told) == [[48, 64, 0, 0, 48, 64]]


def test_a_network_that_is_told_no_sizes_stays_without() -> None:
    sizes = {name: torch.ones(1, 2) for name in ("original_size", "crop", "target_size")}
    assert Conditioner(Recorder())({"caption": ["a"], **sizes}, None, (8, 8)).sizes is None
