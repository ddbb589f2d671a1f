"""What ranks exchange: one group, one exchange a step boundary for all who ask, and failures in each of them."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch
from torch import distributed

from ldm.errors import Fault
from lun.loop.boundary import AtStepBoundary, agreement_of
from lun.loop.position_callback import follower
from lun.loop.rank_agreement import RankAgreement


class Asks(AtStepBoundary):
    """Votes `number` at each boundary, and notes what the ranks agreed on."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.found: list[int] = []

    def vote(self, trainer: Any, pl_module: Any, step: int, final: bool) -> int:
        return self.number + step

    def at_step(self, trainer: Any, pl_module: Any, step: int, final: bool) -> None:
        self.found.append(self.agreed)


class Ends(AtStepBoundary):
    """The last at each boundary: asks for a stop by `number`, which carries the votes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.found: list[int] = []

    def at_step(self, trainer: Any, pl_module: Any, step: int, final: bool) -> None:
        assert self.agreed == 0
        self.found.append(self.agree_on(trainer, pl_module, step, self.number))


@pytest.fixture
def group(tmp_path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """What was exchanged, in order: (failed, numbers ...)."""
    seen: list[list[int]] = []
    real = distributed.all_reduce

    def all_reduce(tensor: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        seen.append(tensor.tolist())
        return real(tensor, *arguments, **named)

    monkeypatch.setattr(distributed, "all_reduce", all_reduce)
    return seen


def test_one_rank_agrees_with_itself_and_exchanges_nothing(training, exchanges) -> None:
    agreement = RankAgreement()
    agreement.join(training(1).trainer, training(1).module)
    assert agreement.largest(7) == 7 and agreement.alone and exchanges == []


@pytest.mark.parametrize(
    ("ends", "exchanged"),
    [([Ends(7)], [[0, 7, 1, 5], [0, 7, 2, 6], [0, 7, 3, 7]]), ([], [[0, 2, 6, 0], [0, 3, 7, 0]])],
    ids=["with what ends a boundary", "alone"],
)
def test_all_who_ask_at_a_boundary_share_one_exchange_and_one_group(
    group, exchanges, training, monkeypatch, ends, exchanged
) -> None:
    first, second = Asks(1), Asks(5)
    tiny = training(2, first, second, *ends)
    monkeypatch.setattr(type(tiny.trainer), "world_size", property(lambda self: 2))
    callbacks = [callback for callback in tiny.trainer.callbacks if isinstance(callback, AtStepBoundary)]
    for callback in callbacks:
        callback.on_fit_start(tiny.trainer, tiny.module)
    assert len({id(callback.agreement) for callback in callbacks}) == 1
    assert agreement_of(tiny.trainer) is first.agreement
    for step in (0, 1, 2):
        tiny.module.position.step = step
        for callback in callbacks:
            callback.on_train_batch_start(tiny.trainer, tiny.module, None, 0)
    assert exchanges == exchanged
    of_the_step_before = bool(ends)
    assert first.found == [0, *(vote - of_the_step_before for vote in (2, 3))]
    assert second.found == [0, *(vote - of_the_step_before for vote in (6, 7))]
    assert [one.found for one in ends] == [[7, 7, 7]] * len(ends)


class Rank:
    """One of two ranks in a thread: a group of its own for a `RankAgreement` that stands at a step."""

    def __init__(self, group: Any, trainer: Any, module: Any) -> None:
        self.agreement = RankAgreement()
        self.agreement.join(trainer, module, votes=2)
        self.agreement._group = group


@pytest.fixture
def two(training, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """`two(of_rank_0, of_rank_1)`: what both return, or raise, with their agreements; in threads of this process.

    A group that nobody answers is not given up before its `seconds` are over, and a thread would wait for it.
    """
    store = distributed.HashStore()

    def both(*acts: Callable[[RankAgreement], Any], dirty: bool = False, seconds: float = 25) -> list[Any]:
        results: list[Any] = [None, None]

        def run(rank: int) -> None:
            tiny = training(1)
            follower(tiny.trainer).dirty = dirty and rank == 1
            backend = distributed.ProcessGroupGloo(store, rank, 2, timedelta(seconds=seconds))
            agreement = Rank(backend, tiny.trainer, tiny.module).agreement
            try:
                results[rank] = (acts[rank](agreement), agreement)
            except Fault as fault:
                results[rank] = (fault.id, agreement)

        monkeypatch.setattr(distributed, "all_reduce", reduce_in_thread)
        threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        return results

    return both


def reduce_in_thread(tensor: torch.Tensor, op: Any, group: Any, async_op: bool) -> Any:
    options = distributed.AllreduceOptions()
    options.reduceOp = op
    return group.allreduce([tensor], options)


def test_two_ranks_find_the_largest_of_each_vote(two) -> None:
    first, second = two(lambda a: a.votes(0, lambda: [3, 1]), lambda a: a.votes(0, lambda: [0, 9]))
    assert first[0] == second[0] == [3, 9]


@pytest.mark.parametrize(
    "asks", [lambda a: a.largest(1), lambda a: a.votes(0, lambda: [0, 1])], ids=["a number", "votes"]
)
@pytest.mark.parametrize("dirty", [False, True])
def test_a_failure_meets_whatever_the_other_rank_asks_and_both_know_where_they_stand(two, asks, dirty) -> None:
    first, second = two(asks, lambda a: a.report_failure(), dirty=dirty)
    assert first[0] == "TRN03" and second[0] is None
    assert [first[1].together, second[1].together] == [not dirty, not dirty]


def test_a_rank_that_nobody_answers_gives_up_and_asks_no_more(two) -> None:
    def fails(agreement: RankAgreement) -> bool:
        agreement.patience = 0.05
        agreement.report_failure()
        return agreement.alone

    assert two(lambda a: None, fails, seconds=3)[1][0] is True
