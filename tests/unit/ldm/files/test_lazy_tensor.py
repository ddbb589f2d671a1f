import copy
import itertools

import pytest
import torch
from torch import Tensor, nn

from ldm.files.lazy_tensor import LazyShardedTensor, Run, covers, elements_between

WHOLE = torch.arange(24.0).reshape(4, 6)


class Counted:
    """Elements on a disk, which notes what is read of them."""

    def __init__(self, elements: Tensor) -> None:
        self.elements = elements
        self.read: list[slice] = []

    def __len__(self) -> int:
        return len(self.elements)

    def __getitem__(self, where: slice) -> Tensor:
        self.read.append(where)
        return self.elements[where]


def spread(whole: Tensor = WHOLE, *cuts: int) -> LazyShardedTensor:
    ends = [0, *cuts, whole.numel()]
    runs = [Run(a, Counted(whole.reshape(-1)[a:b])) for a, b in itertools.pairwise(ends)]
    return LazyShardedTensor(whole.shape, whole.dtype, runs[::-1])


def reads(tensor: LazyShardedTensor) -> int:
    return sum(len(run.elements.read) for run in tensor.runs)


def test_it_says_what_the_whole_tensor_is_without_reading_any_of_it():
    tensor = spread(WHOLE, 5, 10)
    assert tensor.shape == WHOLE.shape and tensor.dtype == WHOLE.dtype and tensor.nbytes == WHOLE.nbytes
    assert (tensor.dim(), tensor.numel(), tensor.is_floating_point(), tensor.device.type) == (2, 24, True, "cpu")
    assert isinstance(tensor, Tensor) and not tensor.is_meta and "3 runs" in repr(tensor)
    assert reads(tensor) == 0


@pytest.mark.parametrize("cuts", [(), (1,), (5, 10), (6, 12, 18)])
def test_what_is_computed_with_it_is_computed_with_the_whole(cuts):
    tensor = spread(WHOLE, *cuts)
    assert torch.equal(tensor.whole(), WHOLE)
    assert torch.equal(tensor + 1, WHOLE + 1)
    assert torch.equal(torch.empty(4, 6).copy_(tensor), WHOLE)
    assert float(tensor.sum()) == float(WHOLE.sum())
    assert type(tensor.to(torch.float32)) is Tensor and torch.equal(tensor.to(torch.float32), WHOLE)
    assert torch.equal(copy.deepcopy(tensor), WHOLE)
    assert torch.equal(torch.cat([tensor, tensor], dim=1), torch.cat([WHOLE, WHOLE], dim=1))


def test_it_stays_spread_when_it_is_joined_or_parted_or_gets_another_shape():
    tensor = spread(WHOLE, 5)
    for made, like in (
        (torch.cat([tensor, tensor, tensor]), torch.cat([WHOLE] * 3)),
        (tensor.reshape(2, -1), WHOLE.reshape(2, -1)),
        (tensor.view((3, 8)), WHOLE.view(3, 8)),
        (tensor[:, :, None, None], WHOLE[:, :, None, None]),
        (tensor.narrow(0, 0, 2), WHOLE[:2]),
        (tensor.narrow(0, 1, 3).narrow(0, 1, 1), WHOLE[2:3]),
        (tensor.detach(), WHOLE),
    ):
        assert isinstance(made, LazyShardedTensor) and reads(tensor) == 0
        assert made.shape == like.shape and torch.equal(made.whole(), like)
        for run in tensor.runs:
            run.elements.read.clear()


def test_elements_are_read_no_further_than_asked_for():
    tensor = spread(WHOLE, 5, 10)
    assert elements_between(tensor, 6, 9).tolist() == [6, 7, 8]
    assert [run.elements.read for run in tensor.runs] == [[], [slice(1, 4)], []]
    assert elements_between(WHOLE, 6, 9).tolist() == [6, 7, 8]
    assert elements_between(tensor, 4, 11).tolist() == [4, 5, 6, 7, 8, 9, 10]


def test_what_other_ranks_hold_cannot_be_read():
    tensor = LazyShardedTensor((4, 6), torch.float32, [Run(6, WHOLE.reshape(-1)[6:12])])
    assert tensor.between(7, 12).tolist() == [7, 8, 9, 10, 11]
    for wish in (tensor.whole, lambda: tensor + 1, lambda: tensor.between(0, 7), lambda: tensor.between(11, 13)):
        with pytest.raises(RuntimeError, match="not held here"):
            wish()


def test_it_is_not_written():
    with pytest.raises(RuntimeError, match="cannot be written"):
        spread().zero_()


def test_a_module_loads_it():
    module = nn.Linear(6, 4, bias=False)
    module.load_state_dict({"weight": spread(WHOLE, 7)})
    assert torch.equal(module.weight, WHOLE)


def test_an_optimizer_gets_tensors_that_it_can_step():
    weight = nn.Parameter(torch.zeros(4, 6))
    optimizer = torch.optim.Adam([weight])
    weight.grad = torch.ones(4, 6)
    optimizer.step()
    stored = optimizer.state_dict()
    stored["state"][0]["exp_avg"] = spread(WHOLE, 7)
    optimizer.load_state_dict(stored)
    assert type(optimizer.state[weight]["exp_avg"]) is Tensor
    assert torch.equal(optimizer.state[weight]["exp_avg"], WHOLE)


def test_runs_that_leave_a_gap_or_overlap_do_not_cover():
    assert covers([(0, 4), (4, 8)], 8) and covers([], 0)
    assert not covers([(0, 4), (5, 9)], 9)
    assert not covers([(0, 4), (3, 7)], 7)
    assert not covers([(0, 4)], 5) and not covers([], 1)
