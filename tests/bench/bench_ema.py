"""One EMA update of the UNet of SD 1.x on the CPU: ours against those in use elsewhere; run it, see `--help`.

Every variant runs in a process of its own. Its ratio is to a flat fp32 `lerp_`, timed right before each update in the
same process on a quarter of the weights: the least that an fp32 average of fp32 weights can cost. Extra memory is the
peak of the process during the first updates above what it held before them, as a share of one fp32 copy of the weights.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from report import Row, present
from torch import Tensor, nn

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
DECAY = 0.9999
Update = Callable[[], object]


def shapes() -> dict[str, torch.Size]:
    """Names and shapes of the 686 parameters of SD 1.x's UNet, 859.5 million, from diffusers' class on no memory."""
    from diffusers import UNet2DConditionModel

    with torch.device("meta"):
        network = UNet2DConditionModel(cross_attention_dim=768, attention_head_dim=8)
    return {name: parameter.shape for name, parameter in network.named_parameters()}


def parameters(dtype: torch.dtype, share: float) -> nn.Module:
    """A module with random parameters of those shapes; `share` < 1 takes the first of them up to that share."""
    module, wanted, total = nn.Module(), 0, 0
    table = shapes()
    wanted = share * sum(shape.numel() for shape in table.values())
    for name, shape in table.items():
        if total < wanted:
            values = torch.empty(shape, dtype=dtype).uniform_(-1, 1)
            module.register_parameter(name.replace(".", "_"), nn.Parameter(values))
            total += shape.numel()
    return module


def ours(module: nn.Module) -> Update:
    from ldm.ema.lit_ema import LitEma

    ema, steps = LitEma(module, DECAY, update_every=1), iter(range(1, 10**9))
    return lambda: ema.update(next(steps))


def ours_in_torch(module: nn.Module) -> Update:
    """As on a machine that has no C compiler."""
    from ldm.ema import compiled

    compiled.kernel = lambda: None
    return ours(module)


def ours_two_widths(module: nn.Module) -> Update:
    from ldm.ema.lit_ema import LitEma
    from ldm.ema.profiles import PowerDecay

    ema = LitEma(module, profile=PowerDecay(0.10), widths=(0.05, 0.10), update_every=1)
    steps = iter(range(1, 10**9))
    return lambda: ema.update(next(steps))


def compvis(module: nn.Module) -> Update:
    """The rule of CompVis' LitEma: two temporaries a tensor, shadows in the dtype of the weights."""
    sources = [weight.detach() for weight in module.parameters()]
    shadows = [source.clone() for source in sources]
    rest = torch.tensor(1 - DECAY)

    def update() -> None:
        for shadow, source in zip(shadows, sources, strict=True):
            shadow.sub_((rest * (shadow - source)).to(shadow.dtype))

    return update


def diffusers(foreach: bool) -> Callable[[nn.Module], Update]:
    def build(module: nn.Module) -> Update:
        from diffusers.training_utils import EMAModel

        sources = list(module.parameters())
        model = EMAModel(sources, decay=DECAY, foreach=foreach)
        return lambda: model.step(sources)

    return build


def lightning(module: nn.Module) -> Update:
    """What the callback builds in `setup` and calls after each step."""
    from lightning.pytorch.callbacks import EMAWeightAveraging
    from torch.optim.swa_utils import AveragedModel

    callback = EMAWeightAveraging(decay=DECAY)
    model = AveragedModel(module, **callback._kwargs)
    return lambda: model.update_parameters(module)


def averaged_model(module: nn.Module) -> Update:
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    model = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
    return lambda: model.update_parameters(module)


BUILDERS: Mapping[str, Callable[[nn.Module], Update]] = {
    "LitEma": ours,
    "LitEma without a C compiler": ours_in_torch,
    "LitEma, widths 0.05 and 0.10": ours_two_widths,
    "torch AveragedModel, multi_avg_fn": averaged_model,
    "diffusers EMAModel(foreach=True)": diffusers(foreach=True),
    "diffusers EMAModel": diffusers(foreach=False),
    "CompVis formula": compvis,
    "Lightning EMAWeightAveraging": lightning,
}


def seconds(act: Update) -> float:
    start = perf_counter()
    act()
    return perf_counter() - start


def peak_memory() -> int:
    """The highest resident bytes since the last reset, by the kernel's own account."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def measure(name: str, dtype: torch.dtype, repeats: int, share: float) -> dict[str, Any]:
    """Median seconds, median ratio to the floor, and the extra peak of the first updates in fp32 copies."""
    module = parameters(dtype, share)
    size = sum(weight.numel() for weight in module.parameters())
    update = BUILDERS[name](module)
    before = resident()
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    for _ in range(2):
        update()
    extra = (peak_memory() - before) / (4 * size)
    part = size // 4  # of the weights: the floor needs two more tensors, and must not need more memory than there is
    flat, target = torch.zeros(part), torch.ones(part)
    pairs = [(floor(flat, target) * size / part, seconds(update)) for _ in range(repeats)]
    return {
        "ms": 1e3 * median(time for _, time in pairs),
        "floor": 1e3 * median(base for base, _ in pairs),
        "ratio": median(time / base for base, time in pairs),
        "extra": extra,
        "size": size,
    }


def floor(flat: Tensor, target: Tensor) -> float:
    """Seconds of one flat fp32 `lerp_`: 12 bytes an element."""
    return seconds(lambda: flat.lerp_(target, 1 - DECAY))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the 859.5 million parameters")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=DTYPES, default="fp32", help="of the weights")
    parser.add_argument("--only", help="variants whose name contains this")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--variant", choices=BUILDERS, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.variant:
        torch.set_num_threads(args.threads)
        print(json.dumps(measure(args.variant, DTYPES[args.dtype], args.repeats, args.share)))
        return
    print(f"{args.dtype} weights, {args.threads} thread(s), torch {torch.__version__}, median of {args.repeats}\n")
    shared = ["--dtype", args.dtype, "--repeats", str(args.repeats)]
    shared += ["--threads", str(args.threads), "--share", str(args.share)]
    wanted = [name for name in BUILDERS if not args.only or args.only in name]
    present("ema", [row for name in wanted if (row := row_of(name, shared))], args.json)


def row_of(name: str, words: Sequence[str]) -> Row | None:
    """A variant in a process of its own; None, and its last words, where it fails."""
    line = [sys.executable, __file__, "--variant", name, *words]
    answer = subprocess.run(line, capture_output=True, text=True)
    if answer.returncode:
        print(name, (answer.stderr.strip().splitlines() or ["killed"])[-1], file=sys.stderr)
        return None
    told = json.loads(answer.stdout.splitlines()[-1])
    beside = {"flat lerp_, ms": told["floor"], "over it": told["ratio"], "extra peak memory": told["extra"]}
    return Row(name, told["ms"], "ms", beside)


if __name__ == "__main__":
    main()
