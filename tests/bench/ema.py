"""Time of one EMA update on the CPU, ours against the formulas in use elsewhere; run it as a script, see `--help`."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from time import perf_counter

import torch
from diffusers.training_utils import EMAModel
from torch import Tensor, nn

from ldm.modules.ema import LitEma

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
DECAY = 0.9999


def parameters(millions: float, dtype: torch.dtype) -> dict[str, nn.Parameter]:
    """About `millions` million random weights in the mix of a UNet: convolutions, linear layers, biases, norms."""
    shapes = [(640, 640, 3, 3), (640,), (640,), (640, 640), (5120, 640), (5120,), (640, 2560), (640,)]
    result: dict[str, nn.Parameter] = {}
    while sum(weight.numel() for weight in result.values()) < millions * 1e6:
        shape = shapes[len(result) % len(shapes)]
        result[f"w{len(result)}"] = nn.Parameter(torch.randn(shape).to(dtype))
    return result


def ours(weights: dict[str, nn.Parameter]) -> Callable[[], object]:
    ema, steps = LitEma(weights, DECAY, update_every=1), iter(range(1, 10**9))
    return lambda: ema.update(next(steps))


def ours_without_check(weights: dict[str, nn.Parameter]) -> Callable[[], object]:
    ema = LitEma(weights, DECAY)
    tensors = {name: weight.detach() for name, weight in weights.items()}
    return lambda: ema._shadow.lerp(tensors, 1 - DECAY)


def compvis(weights: dict[str, nn.Parameter]) -> Callable[[], object]:
    """The rule of CompVis' LitEma: two temporaries a tensor, shadows in the dtype of the weights."""
    sources = [weight.detach() for weight in weights.values()]
    shadows = [source.clone() for source in sources]
    rest = torch.tensor(1 - DECAY)

    def update() -> None:
        for shadow, source in zip(shadows, sources, strict=True):
            shadow.sub_((rest * (shadow - source)).to(shadow.dtype))

    return update


def fp32_shadow_by_temporaries(weights: dict[str, nn.Parameter]) -> Callable[[], object]:
    """The same rule with the fp32 shadows that 16-bit weights need."""
    sources = [weight.detach() for weight in weights.values()]
    shadows = [source.float() for source in sources]

    def update() -> None:
        for shadow, source in zip(shadows, sources, strict=True):
            shadow.sub_((1 - DECAY) * (shadow - source))

    return update


def diffusers(foreach: bool) -> Callable[[dict[str, nn.Parameter]], Callable[[], object]]:
    """diffusers' own class, as installed; its shadows have the dtype of the weights."""

    def build(weights: dict[str, nn.Parameter]) -> Callable[[], object]:
        sources = list(weights.values())
        model = EMAModel(sources, decay=DECAY, foreach=foreach)
        return lambda: model.step(sources)

    return build


BUILDERS: dict[str, Callable[[dict[str, nn.Parameter]], Callable[[], object]]] = {
    "LitEma.update": ours,
    "LitEma.update without the check for NaN": ours_without_check,
    "CompVis LitEma": compvis,
    "fp32 shadow, same formula": fp32_shadow_by_temporaries,
    "diffusers EMAModel": diffusers(foreach=False),
    "diffusers EMAModel(foreach=True)": diffusers(foreach=True),
}


def seconds(act: Callable[[], object]) -> float:
    start = perf_counter()
    act()
    return perf_counter() - start


def measured(weights: dict[str, nn.Parameter], repeats: int) -> Iterator[tuple[str, float, float]]:
    """Per implementation: its name, median seconds, median ratio to an fp32 `lerp_` timed before each repeat."""
    size = sum(weight.numel() for weight in weights.values())
    flat, target = torch.zeros(size), torch.randn(size)
    for name, build in BUILDERS.items():
        update = build(weights)
        update()
        pairs = [(floor(flat, target), seconds(update)) for _ in range(repeats)]
        yield name, median(time for _, time in pairs), median(time / base for base, time in pairs)


def floor(flat: Tensor, target: Tensor) -> float:
    """Seconds of one flat fp32 `lerp_`: 12 bytes an element, the least that any fp32 average of fp32 weights moves."""
    return seconds(lambda: flat.lerp_(target, 1 - DECAY))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=64, help="million parameters; SD 1.5's UNet has 860")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=DTYPES, default="fp32", help="of the weights")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    weights = parameters(args.millions, DTYPES[args.dtype])
    size = sum(weight.numel() for weight in weights.values())
    print(
        f"{size / 1e6:.1f} M parameters ({args.dtype}) in {len(weights)} tensors, {args.threads} thread(s), "
        f"torch {torch.__version__}, median of {args.repeats}\n"
    )
    print("| one update | ms | ratio to a flat fp32 lerp_ |\n|---|---|---|")
    for name, time, ratio in measured(weights, args.repeats):
        print(f"| {name} | {time * 1e3:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
