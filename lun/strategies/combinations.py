"""Which strategy goes with which precision: one table, asked before anything is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ldm.errors import Fault

Strategy = Literal["one device", "ddp", "fsdp", "deepspeed"]
PRECISIONS = ("32-true", "bf16-mixed", "16-mixed", "bf16-true", "bf16-master")
_SPELT = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}


@dataclass(frozen=True)
class RefusedCombination:
    """Why a combination is refused, what to use instead, and whether that is so on the CPU alone."""

    why: str
    fix: str
    on_cpu_only: bool = False


_SCALED = RefusedCombination(
    "float16 needs its gradients scaled, and nothing scales those of shards", "precision bf16-mixed"
)
_ON_GPU = RefusedCombination(
    "DeepSpeed scales float16 by kernels of a GPU; on one this strategy and precision go together",
    "--accelerator gpu on a machine that has one, or precision bf16-mixed",
    on_cpu_only=True,
)
_SUMMED_IN_HALF = RefusedCombination(
    "ranks would average its gradients in bfloat16, and nothing keeps what that rounds away",
    "precision bf16-mixed; or strategy fsdp with bf16-true, which averages gradients and steps weights in fp32",
)
_IN_FP32_ALREADY = RefusedCombination(
    "under it the weights that are stepped are in fp32 already, as in bf16-master on one device", "precision bf16-true"
)

TABLE: Mapping[Strategy, Mapping[str, RefusedCombination | None]] = {
    "one device": dict.fromkeys(PRECISIONS),
    "ddp": dict.fromkeys(PRECISIONS) | {"bf16-master": _SUMMED_IN_HALF},
    "fsdp": dict.fromkeys(PRECISIONS) | {"16-mixed": _SCALED, "bf16-master": _IN_FP32_ALREADY},
    "deepspeed": dict.fromkeys(PRECISIONS) | {"16-mixed": _ON_GPU, "bf16-master": _IN_FP32_ALREADY},
}


def precision_name(given: object) -> str:
    """The name of a precision in any spelling; `Fault` CFG08 for one that fine-tuning loses weights in, or unknown."""
    name = "32-true" if given is None else _SPELT.get(str(given), str(given))
    if name not in PRECISIONS:
        why = "weights in float16 lose small updates, and their gradients" if name == "16-true" else ""
        raise Fault(
            "CFG08",
            f"precision {given} is not among those that can be trained in",
            where="lightning.trainer.precision",
            why=why,
            fix=", ".join(PRECISIONS),
        )
    return name


def strategy_kind(strategy: object) -> Strategy:
    """The row of the table: by a strategy's name, or by the import path that a recipe has as its target."""
    name = str(strategy.get("target") if isinstance(strategy, Mapping) else strategy or "auto").lower()
    kinds: tuple[Strategy, ...] = ("deepspeed", "fsdp", "ddp")
    for kind in kinds:
        if kind in name:
            return kind
    return "fsdp" if "model_parallel" in name else "one device"


def require_combination(strategy: Strategy, precision: str, on_cpu: bool) -> None:
    """Raise a `Fault` if this strategy cannot train in this precision (a name of `PRECISIONS`).

    CFG08 where no device can, DEV05 where only the CPU cannot: the configuration is right and the machine is another.
    """
    refusal = TABLE[strategy][precision]
    if refusal is None or (refusal.on_cpu_only and not on_cpu):
        return
    raise Fault(
        "DEV05" if refusal.on_cpu_only else "CFG08",
        f"precision {precision} cannot be used with strategy {strategy}"
        + (" on the CPU" if refusal.on_cpu_only else ""),
        where="lightning.trainer.precision",
        why=refusal.why,
        fix=refusal.fix,
    )
