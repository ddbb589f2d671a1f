"""The pipeline on a real CUDA or ROCm device: nothing torn, nothing blocked, no memory taken. Run with `-m gpu`."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ldm.ema.async_copy import CudaLink, Pipeline, Tensors
from ldm.ema.lit_ema import LitEma

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm device")]

STEPS = 200
ROWS, WIDTH = 16, 1 << 22  # 256 MB of fp32: a copy takes about as long as ten steps


class SlowLink(CudaLink):
    """Copies tensor by tensor with a pause before each, so that a missing wait is seen at once."""

    def copy(self, targets: Tensors, sources: Tensors) -> None:  # type: ignore[override]
        with torch.cuda.stream(self._side), torch.no_grad():
            for name, target in targets.items():
                torch.cuda._sleep(500_000)
                target.copy_(sources[name], non_blocking=True)


class NoFork(SlowLink):
    def fork(self) -> None:
        pass


class NoGate(Pipeline):
    def gate(self) -> None:
        pass


class NoJoin(Pipeline):
    def join(self) -> None:
        pass


class NoWait(Pipeline):
    def _run(self, mark: object, sources: Tensors, act: Callable[[Tensors], object]) -> None:
        act(self._staging)


def torn(pipeline: Pipeline, steps: int = STEPS, pause: int = 50_000) -> list[str]:
    """Steps whose weights, counters that an optimizer writes with a pause (in cycles) before each, did not arrive as a
    single number."""
    weights = {str(row): torch.zeros(WIDTH, device="cuda") for row in range(ROWS)}
    found: list[str] = []

    def look(staged: Tensors, step: int) -> None:
        ends = {float(value) for tensor in staged.values() for value in (tensor.min(), tensor.max())}
        if ends != {float(step)}:
            found.append(f"{step}: {sorted(ends)}")

    for step in range(1, steps + 1):
        pipeline.gate()
        for weight in weights.values():
            torch.cuda._sleep(pause)
            weight.fill_(step)
        pipeline.launch(weights, lambda staged, step=step: look(staged, step))
    Pipeline.join(pipeline)
    torch.cuda.synchronize()
    return found


def device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def test_two_hundred_steps_arrive_whole() -> None:
    assert torn(Pipeline(SlowLink(device()))) == []


@pytest.mark.parametrize(
    ("build", "steps", "pause"),
    [
        (lambda: NoGate(SlowLink(device())), 40, 50_000),
        # The copies have to overtake the optimizer, which has a head start: the time that locking the pages takes.
        (lambda: Pipeline(NoFork(device())), 4, 100_000_000),
        (lambda: NoJoin(SlowLink(device())), 40, 50_000),
        (lambda: NoWait(SlowLink(device())), 40, 50_000),
    ],
    ids=["no gate", "no fork", "no join", "no wait"],
)
def test_without_one_of_its_rules_weights_arrive_torn(build: Callable[[], Pipeline], steps: int, pause: int) -> None:
    assert torn(build(), steps, pause)


def network(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(64, 256, 3), nn.Linear(512, 512)).to("cuda", dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_it_averages_what_the_cpu_averages(dtype: torch.dtype, memory_format: torch.memory_format) -> None:
    model, twin = network(dtype).to(memory_format=memory_format), network(dtype).to("cpu")
    ours, expected = LitEma(model, update_every=1, widths=(0.05,)), LitEma(twin, update_every=1, widths=(0.05,))
    for step in range(1, 30):
        ours.gate()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.01)
        twin.load_state_dict({name: value.cpu() for name, value in model.state_dict().items()})
        ours.update(step)
        expected.update(step)
    assert ours.stall_ms is not None
    for name, track in expected.tracks().items():
        found = ours.tracks()[name].shadow
        assert found is not None and track.shadow is not None
        assert torch.equal(found.flat, track.shadow.flat)


def test_fifty_updates_and_swaps_take_no_memory_of_the_device() -> None:
    model = network(torch.float32)
    ema = LitEma(model, update_every=1)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for step in range(1, 51):
        ema.gate()
        ema.update(step)
        with ema.scope():
            pass
    largest = max(parameter.numel() for parameter in model.parameters()) * 4
    assert torch.cuda.memory_allocated() == held
    assert torch.cuda.max_memory_allocated() - held <= largest
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))


def test_staging_is_page_locked() -> None:
    staging = CudaLink(device()).staging({"w": torch.zeros(3, 5, device="cuda"), "b": torch.ones(7).cuda().half()})
    assert all(tensor.is_pinned() for tensor in staging.values())


def test_an_average_on_the_device_equals_one_on_the_cpu() -> None:
    model = network(torch.float32)
    near, far = LitEma(model, update_every=1, device="cuda"), LitEma(model, update_every=1)

    def flat(ema: LitEma) -> Tensor:
        return torch.cat([view.flatten().cpu() for view in ema.averaged_state().values()])

    for step in range(1, 10):
        far.gate()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1)
        near.update(step)
        far.update(step)
    torch.testing.assert_close(flat(near), flat(far), rtol=1e-6, atol=1e-7)
