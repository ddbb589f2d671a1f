"""Prints what a step of Stable Diffusion costs in memory and traffic on 8, 64 and 512 GPUs, by arithmetic alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

GB = 1e9
NODE = 8  # GPUs
NVLINK = 450 * GB  # bytes a second and direction, each GPU
RAIL = 50 * GB  # one network card of 400 Gb/s
PCIE = 25 * GB  # between a GPU and main memory
MAIN_MEMORY = 100 * GB  # of one machine
MODELS = {"SD 1.x": 859.5e6, "SDXL": 2567e6}
GPUS = (8, 64, 512)
STEPS = (0.25, 1.0)  # seconds of computing


@dataclass(frozen=True)
class Setting:
    """One way to spread P parameters over N GPUs; `held` and `moved` are bytes a parameter.

    held       on each GPU: weights, gradients, AdamW's moments
    moved      through each GPU in a step, as if N were large
    window     share of the step's computing that can hide traffic
    last       share of the traffic that nothing is left to hide
    """

    name: str
    held: Callable[[int], float]
    moved: float
    window: float
    last: float

    def traffic(self, parameters: float, gpus: int, speed: float) -> float:
        """Seconds that a ring needs."""
        return self.moved * parameters * (gpus - 1) / gpus / speed

    def exposed(self, seconds: float, step: float) -> float:
        """Seconds of traffic that a step of `step` seconds cannot hide."""
        return max(seconds - self.window * step, self.last * seconds)


# Gradients travel while the backward pass (2/3 of a step) still runs, after its first eighth; sharded weights are asked
# for throughout.
DDP_WINDOW, DDP_LAST = 2 / 3 * 7 / 8, 1 / 16
SHARDED_WINDOW, SHARDED_LAST = 0.9, 0.1
SETTINGS = (
    Setting("ddp (32, bf16-mixed)", lambda n: 16, 8, DDP_WINDOW, DDP_LAST),
    Setting("ddp, bf16-true", lambda n: 12, 4, DDP_WINDOW, DDP_LAST),
    Setting("deepspeed 1, bf16", lambda n: 4 + 12 / n, 4, DDP_WINDOW, DDP_LAST),
    Setting("deepspeed 2, bf16", lambda n: 2 + 14 / n, 4, DDP_WINDOW, DDP_LAST),
    Setting("deepspeed 3, bf16", lambda n: 16 / n, 6, SHARDED_WINDOW, SHARDED_LAST),
    Setting("fsdp, bf16-mixed", lambda n: 16 / n, 8, SHARDED_WINDOW, SHARDED_LAST),
)
SHARDED = SETTINGS[-1]
PLACES = ((8, 0), (64, 8), (64, 1), (512, 8), (512, 1))  # GPUs, network cards a node


def hybrid_traffic(parameters: float, gpus: int) -> float:
    """Seconds of traffic of fsdp within each node, and an all-reduce of each GPU's shard between the nodes."""
    nodes = gpus // NODE
    within = SHARDED.traffic(parameters, NODE, NVLINK)
    return within + 2 * 4 * parameters / NODE * (nodes - 1) / nodes / RAIL


def memory_table() -> Iterator[str]:
    yield "| strategy, precision | " + " | ".join(f"{model}, {gpus}" for model in MODELS for gpus in GPUS) + " |"
    yield "|---|" + "---|" * (len(MODELS) * len(GPUS))
    for setting in SETTINGS:
        cells = [f"{setting.held(gpus) * size / GB:.1f}" for size in MODELS.values() for gpus in GPUS]
        yield f"| {setting.name} | " + " | ".join(cells) + " |"
    cells = [f"{SHARDED.held(NODE) * size / GB:.1f}" for size in MODELS.values() for _ in GPUS]
    yield "| fsdp within a node, copies between | " + " | ".join(cells) + " |"


def traffic_table(model: str) -> Iterator[str]:
    heads = [f"{gpus} GPUs" + (f", {cards} card{'s' * (cards > 1)} a node" if cards else "") for gpus, cards in PLACES]
    yield f"| {model} | " + " | ".join(heads) + " |"
    yield "|---|" + "---|" * len(PLACES)
    size = MODELS[model]
    for setting in SETTINGS:
        times = [setting.traffic(size, gpus, cards * RAIL or NVLINK) for gpus, cards in PLACES]
        yield f"| {setting.name} | " + " | ".join(_cell(setting, seconds) for seconds in times) + " |"
    hybrid = [_cell(SHARDED, hybrid_traffic(size, gpus)) if cards == NODE else "" for gpus, cards in PLACES]
    yield "| fsdp within a node | " + " | ".join(hybrid) + " |"


def _cell(setting: Setting, seconds: float) -> str:
    shares = [f"{step / (step + setting.exposed(seconds, step)):.0%}" for step in STEPS]
    return f"{1e3 * seconds:.0f} ms: " + " / ".join(shares)


def offload_table() -> Iterator[str]:
    """ZeRO-offload on one GPU: gradients go down and weights come up in half; fused AdamW reads 16 bytes, writes 14."""
    yield "| | saved on the GPU | copies | AdamW on the CPU | share of computing in windows of 1 s / 10 s |"
    yield "|---|---|---|---|---|"
    for model, size in MODELS.items():
        copies, adam = 4 * size / PCIE, 30 * size / MAIN_MEMORY
        shares = " / ".join(f"{window / (window + copies + adam):.0%}" for window in (1.0, 10.0))
        yield f"| {model} | {12 * size / GB:.1f} GB | {1e3 * copies:.0f} ms | {1e3 * adam:.0f} ms | {shares} |"


def report() -> str:
    """All tables, as the README of `lun/strategies` holds them."""
    lines = ["Gigabytes on each GPU for the trained network, before activations, EMA and frozen parts:", ""]
    lines += [*memory_table(), ""]
    lines += ["Traffic in a step, and the share of the time that is computing in steps of 0.25 s and of 1 s:", ""]
    for model in MODELS:
        lines += [*traffic_table(model), ""]
    lines += ["`offload_optimizer` on one GPU, for each window of accumulation:", "", *offload_table()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(report(), end="")
