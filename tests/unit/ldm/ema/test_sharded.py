"""An average of weights that are spread over ranks, seen from one rank that holds half of each."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ldm.ema.lit_ema import LitEma


class Halves:
    """Holds the first half of each tensor; `rest` stands for what the other rank holds."""

    def __init__(self, network: nn.Module, rank: int = 0) -> None:
        self.full = {name: p.detach().clone() for name, p in network.named_parameters()}
        self.parts = {name: value.flatten()[: value.numel() // 2].clone() for name, value in self.full.items()}
        self.rank = rank
        self.told = 0

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.parts)

    def shapes(self) -> dict[str, torch.Size]:
        return {name: value.shape for name, value in self.full.items()}

    def whole(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if self.rank:
            return {}
        rest = {name: value.flatten()[value.numel() // 2 :] for name, value in self.full.items()}
        return {name: torch.cat([part, rest[name]]).view(self.full[name].shape) for name, part in parts.items()}

    def own(self, whole: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: value.flatten()[: value.numel() // 2] for name, value in whole.items()}

    def written(self) -> None:
        self.told += 1


def averaged(rank: int = 0) -> tuple[Halves, LitEma]:
    source = Halves(nn.Linear(4, 2), rank)
    ema = LitEma(source, decay=0.5, warmup=False, update_every=1)
    for part in source.parts.values():
        part.add_(1.0)
    ema.update(1)
    return source, ema


def test_states_are_whole() -> None:
    source, ema = averaged()
    assert {name: tensor.shape for name, tensor in ema.averaged_state().items()} == source.shapes()
    half = ema.state_dict()["weight"].flatten()
    assert torch.allclose(half[:4], source.full["weight"].flatten()[:4] + 0.5)
    assert torch.equal(half[4:], source.full["weight"].flatten()[4:])


def test_other_ranks_hold_no_whole_tensors() -> None:
    _, ema = averaged(rank=1)
    assert ema.averaged_state() == {} and ema.raw_state() == {}
    assert set(ema.state_dict()) == {"num_updates", "decay"}


def test_a_whole_state_is_loaded_part_by_part() -> None:
    _, ema = averaged()
    stored, resume = ema.state_dict(), ema.resume_state()
    other = LitEma(Halves(nn.Linear(4, 2)), decay=0.5, warmup=False, update_every=1)
    other.load_state_dict(stored)
    other.load_resume_state(resume)
    assert all(torch.equal(other._shadow.views[name], view) for name, view in ema._shadow.views.items())
    assert other.step == 1


def test_the_source_is_told_of_each_write_so_that_what_computes_follows() -> None:
    source, ema = averaged()
    before = {name: part.clone() for name, part in source.parts.items()}
    with ema.scope():
        assert source.told == 1
        assert not torch.equal(source.parts["weight"], before["weight"])
    assert source.told == 2
    assert all(torch.equal(part, before[name]) for name, part in source.parts.items())
