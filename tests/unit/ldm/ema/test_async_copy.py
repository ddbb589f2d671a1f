"""The pipeline on a simulated accelerator that runs its two streams and the worker in any order that is allowed.

Weights are counters: an optimizer step writes its number into every element, in two parts with time between them. What
the worker gets must hold a single number, that of the step after which it was launched. Each ordering rule is then
broken, and the simulation must notice.
"""

import random
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any

import pytest
import torch
from torch import Tensor

from ldm.ema.async_copy import Pipeline, Tensors, pipeline_for, require_page_locked
from ldm.ema.lit_ema import LitEma

STEPS = 200


class Event:
    def __init__(self, device: "Device") -> None:
        self.reached = False
        self._device = device

    def synchronize(self) -> None:
        while not self.reached:
            assert self._device.advance(), "the device waits for something that never comes"


class Device:
    """Two streams of closures; whose head runs next is drawn, except that waits block until their event is reached."""

    def __init__(self, seed: int) -> None:
        self.main: list[Callable[[], None] | Event] = []
        self.side: list[Callable[[], None] | Event] = []
        self.random = random.Random(seed)

    def advance(self) -> bool:
        """Run one piece of work; False if there is none that may run."""
        ready = [s for s in (self.main, self.side) if s and not (isinstance(s[0], Event) and not s[0].reached)]
        if not ready:
            return False
        head = self.random.choice(ready).pop(0)
        if not isinstance(head, Event):
            head()
        return True

    def event(self, stream: list[Callable[[], None] | Event]) -> Event:
        event = Event(self)
        stream.append(lambda: setattr(event, "reached", True))
        return event


class FakeLink:
    """The rules of `CudaLink` on a simulated device; copies take two pieces of work a tensor."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def staging(self, tensors: Mapping[str, Tensor]) -> Tensors:
        return {name: torch.full_like(tensor, -1) for name, tensor in tensors.items()}

    def fork(self) -> None:
        self.device.side.append(self.device.event(self.device.main))

    def copy(self, targets: Mapping[str, Tensor], sources: Mapping[str, Tensor]) -> None:
        for name, target in targets.items():
            for part in (0, 1):
                self.device.side.append(lambda t=target, s=sources[name], p=part: t[p].copy_(s[p]))

    def mark(self) -> Event:
        return self.device.event(self.device.side)

    def gate(self, mark: Event) -> None:
        self.device.main.append(mark)


class Worker(Executor):
    """Runs a job piece by piece when told to, or whole when somebody waits for it."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.arguments: tuple[Any, ...] = ()

    def submit(self, act: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Awaited(self)
        self.arguments = args
        self.waiting.append((future, lambda: act(*args, **kwargs)))
        return future

    def work(self) -> None:
        if self.waiting:
            future, act = self.waiting.pop(0)
            try:
                future.set_result(act())
            except Exception as error:  # as a pool does: whoever asks for the result gets it
                future.set_exception(error)


class Awaited(Future[Any]):
    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self._worker = worker

    def exception(self, timeout: float | None = None) -> BaseException | None:
        while not self.done():
            self._worker.work()
        return super().exception(timeout)


class Training:
    """A training loop on the simulated device, with a pipeline launched after every `every`-th step."""

    def __init__(self, seed: int, build: Callable[[FakeLink, Worker], Pipeline], every: int = 1) -> None:
        self.device, self.worker = Device(seed), Worker()
        self.link = FakeLink(self.device)
        self.pipeline = build(self.link, self.worker)
        self.weights = {name: torch.zeros(2, 2) for name in ("a", "b", "c")}
        self.every = every
        self.torn: list[str] = []
        self.seen: list[int] = []

    def run(self) -> "Training":
        for step in range(1, STEPS + 1):
            self.pipeline.gate()
            self._optimizer_step(step)
            if step % self.every == 0:
                self.pipeline.launch(self.weights, lambda staged, step=step: self._look(staged, step))
            for _ in range(self.device.random.randrange(40)):
                self.device.advance()
            if self.device.random.random() < 0.4:
                self.worker.work()
        self.pipeline.join()
        return self

    def _optimizer_step(self, step: int) -> None:
        for weight in self.weights.values():
            for part in (0, 1):
                self.device.main.append(lambda w=weight, p=part: w[p].fill_(step))

    def _look(self, staged: Tensors, step: int) -> None:
        found = {int(value) for tensor in staged.values() for value in tensor.flatten()}
        if found != {step}:
            self.torn.append(f"step {step} arrived as {sorted(found)}")
        self.seen.append(step)


def proper(link: FakeLink, worker: Worker) -> Pipeline:
    return Pipeline(link, worker)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_weights_arrive_whole_and_each_once_in_any_order_of_events(seed: int, every: int) -> None:
    training = Training(seed, proper, every).run()
    assert training.torn == []
    assert training.seen == list(range(every, STEPS + 1, every))


class HostReadsAtOnce(Pipeline):
    def _run(self, mark: Any, sources: Tensors, act: Callable[[Tensors], object]) -> None:
        act(self._staging)


class NoGate(Pipeline):
    def gate(self) -> None:
        pass


class NoJoin(Pipeline):
    """Refills staging at once, although the worker may not have read it."""

    def launch(self, tensors: Mapping[str, Tensor], act: Callable[[Tensors], object]) -> None:
        sources = dict(tensors)
        self._mark = self._copy(sources)
        self._job = self._worker.submit(self._run, self._mark, dict(sources), act)


class NoForkLink(FakeLink):
    def fork(self) -> None:
        pass


class SelfForkLink(FakeLink):
    """Takes the side stream for the training stream, as asking for the current stream inside its context would."""

    def fork(self) -> None:
        self.device.side.append(self.device.event(self.device.side))

    def copy(self, targets: Mapping[str, Tensor], sources: Mapping[str, Tensor]) -> None:
        self.device.side[-2:] = []  # an event that the same stream waits for is no wait at all
        super().copy(targets, sources)


@pytest.mark.parametrize(
    ("hazard", "build"),
    [
        ("H1", lambda link, worker: HostReadsAtOnce(link, worker)),
        ("H2", lambda link, worker: NoGate(link, worker)),
        ("H3", lambda link, worker: Pipeline(NoForkLink(link.device), worker)),
        ("H3, inside the side stream", lambda link, worker: Pipeline(SelfForkLink(link.device), worker)),
        ("H4", lambda link, worker: NoJoin(link, worker)),
    ],
)
def test_without_one_of_its_rules_weights_arrive_torn(hazard: str, build: Callable[..., Pipeline]) -> None:
    assert any(Training(seed, build).run().torn for seed in range(3))


def test_weights_stay_in_memory_until_they_are_copied() -> None:
    """H5."""
    training = Training(0, proper)
    training.pipeline.launch(training.weights, lambda staged: None)
    place = training.weights.pop("a").data_ptr()
    sources = training.worker.arguments[1]
    assert sources["a"].data_ptr() == place
    training.pipeline.join()
    assert sources == {}, "and no longer"


def test_staging_that_is_not_page_locked_is_refused() -> None:
    """H6."""
    with pytest.raises(RuntimeError, match="not page-locked"):
        require_page_locked({"w": torch.zeros(2)})


def in_flight() -> tuple[LitEma, torch.nn.Parameter, Worker]:
    """An EMA whose update is launched and not yet averaged in."""
    parameter = torch.nn.Parameter(torch.zeros(2, 2))
    ema, device, worker = LitEma({"w": parameter}, decay=0.5, warmup=False, update_every=1), Device(0), Worker()
    ema._pipeline = Pipeline(FakeLink(device), worker)
    parameter.data.fill_(1.0)
    ema.update(1)
    assert worker.waiting
    return ema, parameter, worker


@pytest.mark.parametrize(
    "look",
    [
        lambda ema, parameter: ema.averaged_state()["w"],
        lambda ema, parameter: ema.state_dict()["w"],
        lambda ema, parameter: ema.tracks()["ema"].shadow.flat,
        lambda ema, parameter: inside(ema, parameter),
        lambda ema, parameter: torch.tensor(ema.resume_state()["last_update"] / 2.0),
    ],
    ids=["averaged_state", "state_dict", "tracks", "swap", "resume_state"],
)
def test_whoever_looks_at_the_average_waits_for_the_update_under_way(look: Callable[..., Tensor]) -> None:
    """H7."""
    ema, parameter, _ = in_flight()
    assert look(ema, parameter).flatten().tolist()[0] == 0.5
    assert parameter.flatten().tolist() == [1.0] * 4


def inside(ema: LitEma, parameter: Tensor) -> Tensor:
    with ema.scope():
        return parameter.detach().clone()


def test_an_error_of_the_worker_is_raised_before_the_next_optimizer_step() -> None:
    """H8."""
    training = Training(0, proper)

    def fail(staged: Tensors) -> None:
        raise ArithmeticError("lost?")

    training.pipeline.launch(training.weights, fail)
    training.pipeline.gate()
    training.worker.work()
    with pytest.raises(ArithmeticError, match="lost"):
        training.pipeline.gate()
    training.pipeline.launch(training.weights, lambda staged: None)
    training.pipeline.join()


def test_an_error_of_the_worker_is_raised_by_the_next_update_too() -> None:
    training = Training(0, proper)
    training.pipeline.launch(training.weights, lambda staged: [][1])
    with pytest.raises(IndexError):
        training.pipeline.launch(training.weights, lambda staged: None)


def test_an_update_while_swapped_is_refused_and_a_swap_parks_in_staging() -> None:
    """H9; and a swap takes no memory beyond what the pipeline owns."""
    ema, parameter, _ = in_flight()
    with ema.scope():
        assert ema._pipeline is not None
        assert ema.raw_state()["w"].data_ptr() == ema._pipeline._staging["w"].data_ptr()
        assert ema.raw_state()["w"].tolist() == [[1.0, 1.0]] * 2
        with pytest.raises(RuntimeError, match="swapped"):
            ema.update(2)
    assert parameter.tolist() == [[1.0, 1.0]] * 2


def test_it_averages_what_the_plain_way_averages() -> None:
    through, direct = in_flight()[0], LitEma({"w": torch.nn.Parameter(torch.zeros(2, 2))}, 0.5, 1, warmup=False)
    direct._source.tensors()["w"].data.fill_(1.0)
    direct.update(1)
    for step in (2, 3, 4):
        for ema in (through, direct):
            ema.settle()
            ema._source.tensors()["w"].data.fill_(step)
            ema.update(step)
    assert torch.equal(through.averaged_state()["w"], direct.averaged_state()["w"])
    assert through.stall_ms is not None and direct.stall_ms is None


def test_weights_on_the_cpu_need_no_pipeline() -> None:
    assert pipeline_for({"w": torch.zeros(2)}) is None


def test_an_average_that_does_not_keep_up_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = iter([0.0, 0.0, 10.0, 10.05, 20.0, 20.5, 30.0, 31.0])  # seconds at the begin and end of each wait
    monkeypatch.setattr("ldm.ema.async_copy.time.perf_counter", lambda: next(clock))
    training = Training(0, proper)
    told = []
    for _ in range(4):
        training.pipeline.launch(training.weights, lambda staged: None)
        told.append(len(caplog.records))
    assert told == [0, 0, 1, 1]
    assert training.pipeline.stall_ms == 1000.0 and training.pipeline.stalled == pytest.approx(1550.0)


def test_training_goes_on_beside_the_arithmetic_and_keeps_its_own_number_of_threads() -> None:
    threads, begun, seen = torch.get_num_threads(), threading.Event(), []
    training = Training(0, lambda link, worker: Pipeline(link, threads=threads + 1))
    release = threading.Event()

    def act(staged: Tensors) -> None:
        begun.set()
        assert release.wait(10)
        seen.append(torch.get_num_threads())

    training.pipeline.launch(training.weights, act)
    assert begun.wait(10) and seen == []  # the worker is at it, and this thread is not held up
    release.set()
    training.pipeline.join()
    assert seen == [threads + 1] and torch.get_num_threads() == threads
