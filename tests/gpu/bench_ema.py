"""What an EMA costs a training step on a GPU: SD 1.x's parameters and fused AdamW; run it, see `--help`.

A step is the optimizer and, in the place of forward and backward, matrix products that take `--step-ms` and read the
weights' device, not the weights. Each variant runs in a process of its own, after a run without EMA in it.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "bench")]

import bench_ema as on_cpu  # noqa: E402  # the one in tests/bench
import torch  # noqa: E402
from torch import nn  # noqa: E402

from ldm.ema.lit_ema import LitEma  # noqa: E402

DECAY = 0.9999


class Variant:
    """What is called before and after each optimizer step (counted from 1), and how long it made training wait."""

    def gate(self) -> None: ...

    def after(self, step: int) -> None: ...

    def stalled(self) -> float:
        return 0.0


class Ours(Variant):
    def __init__(self, module: nn.Module, every: int, widths: Sequence[float] = ()) -> None:
        self.ema = LitEma(module, DECAY, update_every=every, widths=widths)
        self.gate, self.after = self.ema.gate, self.ema.update  # type: ignore[method-assign]

    def stalled(self) -> float:
        self.ema.settle()
        return 0.0 if self.ema._pipeline is None else self.ema._pipeline.stalled


class OnDevice(Variant):
    """The average on the GPU, by one call for all tensors."""

    def __init__(self, module: nn.Module) -> None:
        self.sources = [parameter.detach() for parameter in module.parameters()]
        self.shadows = [source.clone() for source in self.sources]

    def after(self, step: int) -> None:
        torch._foreach_lerp_(self.shadows, self.sources, 1 - DECAY)


class CompVisFormula(OnDevice):
    def after(self, step: int) -> None:
        for shadow, source in zip(self.shadows, self.sources, strict=True):
            shadow.sub_((1 - DECAY) * (shadow - source))


class DiffusersOffload(Variant):
    """`--offload_ema` of diffusers' example: to the GPU, step, and back, every step."""

    def __init__(self, module: nn.Module) -> None:
        from diffusers.training_utils import EMAModel

        self.sources = list(module.parameters())
        self.model = EMAModel(self.sources, decay=DECAY, foreach=True)
        self.model.to(device="cpu")
        self.model.pin_memory()

    def after(self, step: int) -> None:
        self.model.to(device="cuda", non_blocking=True)
        self.model.step(self.sources)
        self.model.to(device="cpu", non_blocking=True)


class Pageable(Variant):
    """A dictionary on the CPU, updated by blocking copies: every `every` steps."""

    def __init__(self, module: nn.Module, every: int) -> None:
        self.sources, self.every = [parameter.detach() for parameter in module.parameters()], every
        self.shadows = [source.cpu() for source in self.sources]

    def after(self, step: int) -> None:
        if step % self.every == 0:
            for shadow, source in zip(self.shadows, self.sources, strict=True):
                shadow.lerp_(source.cpu().float(), 1 - DECAY**self.every)


VARIANTS: Mapping[str, Callable[[nn.Module], Variant]] = {
    "no EMA": lambda module: Variant(),
    "ours, every step": lambda module: Ours(module, 1),
    "ours, every 4": lambda module: Ours(module, 4),
    "ours, every 10": lambda module: Ours(module, 10),
    "ours, every 25": lambda module: Ours(module, 25),
    "ours, every 100": lambda module: Ours(module, 100),
    "ours, every 10, two widths more": lambda module: Ours(module, 10, (0.05, 0.10)),
    "on the GPU, foreach lerp": OnDevice,
    "on the GPU, CompVis formula": CompVisFormula,
    "diffusers, offloaded": DiffusersOffload,
    "blocking copies, every 10": lambda module: Pageable(module, 10),
    "blocking copies, every 100": lambda module: Pageable(module, 100),
}


def busy(step_ms: float) -> Callable[[], None]:
    """Work for the device of about `step_ms` milliseconds."""
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
    begin = perf_counter()
    for _ in range(100):
        a @ a
    torch.cuda.synchronize()
    count = max(1, round(step_ms / 10 / (perf_counter() - begin)))

    def work() -> None:
        for _ in range(count):
            a @ a

    return work


def train(module: nn.Module, variant: Variant, work: Callable[[], None], steps: int, done: int = 0) -> list[float]:
    """Milliseconds of each step after `done`, by events of the device; the host runs ahead as it does in training."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-6, fused=True)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    events[0].record()
    for step in range(1, steps + 1):
        work()
        variant.gate()
        optimizer.step()
        variant.after(done + step)
        events[step].record()
        if step % 4 == 0:
            events[step - 3].synchronize()  # as the read of a loss would
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in pairwise(events)]


def measure(name: str, dtype: torch.dtype, step_ms: float, steps: int, share: float) -> dict[str, float]:
    module = on_cpu.parameters(dtype, share).to("cuda")
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    work = busy(step_ms)
    train(module, Variant(), work, 10)
    torch.cuda.reset_peak_memory_stats()
    plain = train(module, Variant(), work, steps)
    held = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    on_host = on_cpu.resident()
    variant = VARIANTS[name](module)
    train(module, variant, work, 10)
    times = train(module, variant, work, steps, done=10)
    mean = sum(times) / len(times)
    return {
        "mean": mean,
        "overhead": 100 * (mean / (sum(plain) / len(plain)) - 1),
        "median": median(times),
        "p99": quantiles(times, n=100)[98],
        "max": max(times),
        "vram": (torch.cuda.max_memory_allocated() - held) / 2**30,
        "host": (on_cpu.resident() - on_host) / 2**30,
        "stall": variant.stalled() / steps,
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step-ms", type=float, default=250.0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--share", type=float, default=1.0, help="of the 859.5 million parameters")
    parser.add_argument("--dtype", choices=on_cpu.DTYPES, default="fp32", help="of the weights")
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if not torch.cuda.is_available():
        sys.exit("this measures a CUDA or ROCm device, and torch sees none")
    if args.variant:
        result = measure(args.variant, on_cpu.DTYPES[args.dtype], args.step_ms, args.steps, args.share)
        print(json.dumps(result))
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {args.dtype} weights, {args.steps} steps\n")
    print("| EMA | ms a step | overhead | median | p99 | max | extra VRAM, GiB | host, GiB | stall, ms a step |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in VARIANTS:
        words = ["--variant", name, "--step-ms", str(args.step_ms), "--steps", str(args.steps)]
        words += ["--dtype", args.dtype, "--share", str(args.share)]
        answer = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True)
        if answer.returncode:
            print(f"| {name} | {(answer.stderr.strip().splitlines() or ['killed'])[-1]} | | | | | | | |", flush=True)
            continue
        row = json.loads(answer.stdout.splitlines()[-1])
        print(
            f"| {name} | {row['mean']:.1f} | {row['overhead']:.2f} % | {row['median']:.1f} | {row['p99']:.1f} "
            f"| {row['max']:.1f} | {row['vram']:.2f} | {row['host']:.2f} | {row['stall']:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
