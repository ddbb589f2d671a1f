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
    Conditioner(recorder, "text", rate)({"text": captions}, draws)
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


def test_a_rate_outside_its_range_is_refused() -> None:
    with pytest.raises(Fault, match="between 0 and 1"):
        Conditioner(Recorder(), ucg_rate=10)


def test_guidance_gets_empty_captions() -> None:
    recorder = Recorder()
    context = Conditioner(recorder, ucg_rate=0.5).unconditional(3).context
    assert recorder.captions == ["", "", ""]
    assert context is not None
    assert len(context) == 3


def sized(captions: list[str]) -> Conditioning:
    return Conditioning(torch.zeros(len(captions), 1, 1), sizes=torch.full((len(captions), 6), 64.0))


def test_sizes_of_the_batch_follow_height_before_width() -> None:
    batch = {
        "caption": ["a", "b"],
        "original_size": torch.tensor([[600, 800], [10, 20]]),
        "crop": torch.tensor([[0, 3], [1, 0]]),
        "target_size": torch.tensor([[512, 640], [64, 64]]),
    }
    found = Conditioner(sized)(batch, None).sizes
    assert found is not None and found.dtype == torch.float32
    assert found.tolist() == [[600, 800, 0, 3, 512, 640], [10, 20, 1, 0, 64, 64]]


def test_without_sizes_in_the_batch_the_embedders_own_stand() -> None:
    found = Conditioner(sized)({"caption": ["a"], "target_size": torch.tensor([[512, 640]])}, None).sizes
    assert found is not None and found.tolist() == [[64] * 6]


def test_a_network_that_is_told_no_sizes_stays_without() -> None:
    sizes = {name: torch.ones(1, 2) for name in ("original_size", "crop", "target_size")}
    assert Conditioner(Recorder())({"caption": ["a"], **sizes}, None).sizes is None
