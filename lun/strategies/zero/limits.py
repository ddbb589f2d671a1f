"""What ZeRO can do with an optimizer and with a DeepSpeed config file, and what it is refused for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.optim import Optimizer

from ldm.errors import Fault
from ldm.plain import read_json
from lun.strategies.optimizers import is_elementwise, not_in_partitions

NEEDS_GPU = "bitsandbytes"
SECTION = "lightning.trainer.strategy.params"
# What the run settles itself; DeepSpeed's files have to name them, often as "auto".
_SETTLED = ("train_batch_size", "train_micro_batch_size_per_gpu")
_PRECISION = ("fp16", "bf16", "amp")


def require_elementwise(optimizer: Optimizer, allowed: bool) -> None:
    """Raise `Fault` CFG08 for an optimizer that would compute something else on ZeRO's flat partitions."""
    kind = type(optimizer)
    if is_elementwise(kind) or allowed:
        return
    raise not_in_partitions(f"{kind.__module__}.{kind.__name__}")


def offloads_optimizer(config: Mapping[str, Any]) -> bool:
    """Whether the optimizer's state lies in the CPU's memory."""
    where = config["zero_optimization"].get("offload_optimizer") or {}
    return where.get("device", "none") != "none"


def fit_for_offload(optimizer: Optimizer) -> None:
    """Let an optimizer whose state lies in the CPU's memory step there; `Fault` CFG08 where it cannot.

    torch's fused Adam needs no compiler, unlike DeepSpeed's, which is built with g++ and ninja in its first use.
    """
    kind = type(optimizer)
    if kind.__module__.startswith(NEEDS_GPU):
        raise Fault(
            "CFG08",
            f"{kind.__module__}.{kind.__name__} cannot be offloaded: it steps on a GPU only",
            where=f"{SECTION}.offload_optimizer",
            fix="model.params.optimizer_config.target=torch.optim.AdamW, or without offload_optimizer",
        )
    if kind.__module__.startswith("torch.optim") and "fused" in optimizer.defaults:
        for group in (optimizer.defaults, *optimizer.param_groups):
            group |= {"fused": True, "foreach": False}


def read_config(config: str | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A DeepSpeed config (a JSON file's path or a map) without what the run settles; `Fault` CFG01, CFG02, CFG08."""
    if config is None:
        return None
    given = dict(config) if isinstance(config, Mapping) else _read(Path(config))
    _refuse_sections(given)
    for name in _SETTLED:
        given.pop(name, None)
    for name in ("gradient_accumulation_steps", "gradient_clipping"):
        if given.get(name) == "auto":
            del given[name]
    for name in _PRECISION:
        if _switched(given.get(name)) in ("auto", False):
            del given[name]
    zero = given.get("zero_optimization")
    if isinstance(zero, Mapping):
        given["zero_optimization"] = {key: value for key, value in zero.items() if value != "auto"}
    return given


def require_known(zero: Mapping[str, Any]) -> None:
    """Raise `Fault` CFG08 for settings of ZeRO that DeepSpeed would refuse when it starts."""
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from pydantic import ValidationError

    try:
        DeepSpeedZeroConfig(**zero)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        what = f"DeepSpeed cannot be started with {name}: {first.get('input')!r}"
        raise Fault("CFG08", what, where=SECTION, why=first["msg"]) from error


def settle(config: dict[str, Any], accumulate: int, precision: str) -> dict[str, Any]:
    """`config` without what the Trainer says, too; `Fault` CFG08 where they contradict each other."""
    said = config.get("gradient_accumulation_steps", accumulate)
    if said != accumulate:
        raise _contradiction("gradient_accumulation_steps", said, "accumulate_grad_batches", accumulate)
    half = {"fp16": "16-mixed", "bf16": "bf16-mixed"}
    for name, meant in half.items():
        if name in config and not precision.startswith(meant.split("-")[0]):
            raise _contradiction(name, "enabled", "precision", precision)
    return {key: value for key, value in config.items() if key != "gradient_accumulation_steps"}


def _contradiction(name: str, said: Any, argument: str, value: Any) -> Fault:
    return Fault(
        "CFG08",
        f"the DeepSpeed config has {name}: {said}, but lightning.trainer.{argument} is {value}",
        where=f"{SECTION}.config",
        fix=f"take {name} out of that file, or set lightning.trainer.{argument} to fit",
    )


def _refuse_sections(given: Mapping[str, Any]) -> None:
    for name, instead in (("optimizer", "optimizer_config"), ("scheduler", "scheduler_config")):
        if name in given:
            raise Fault(
                "CFG08",
                f"the DeepSpeed config has a section {name}, which has no effect here",
                where=f"{SECTION}.config",
                fix=f"take it out; model.params.{instead} says it",
            )
    zero = given.get("zero_optimization")
    stage = zero.get("stage", 0) if isinstance(zero, Mapping) else 0
    if stage not in (1, 2, 3):
        raise Fault(
            "CFG08",
            f"the DeepSpeed config asks for ZeRO stage {stage}; 1, 2 and 3 are there",
            where=f"{SECTION}.config",
            why="without ZeRO, DeepSpeed would do what DDP does",
            fix="lightning.trainer.strategy=ddp, or zero_optimization: {stage: 2} in that file",
        )


def _switched(section: Any) -> Any:
    """A precision section's `enabled`; None where there is no such section."""
    return section.get("enabled", False) if isinstance(section, Mapping) else None


def _read(path: Path) -> dict[str, Any]:
    try:
        config = read_json(path)
    except OSError as error:
        raise Fault("CFG01", f"cannot read {path}", where=f"{SECTION}.config", why=error.strerror or "") from error
    except ValueError as error:
        raise Fault("CFG02", f"{path} is not JSON", where=f"{SECTION}.config", why=str(error)) from error
    if not isinstance(config, dict):
        why = f"it holds a {type(config).__name__}"
        raise Fault("CFG02", f"{path} is no JSON map", where=f"{SECTION}.config", why=why)
    return config
