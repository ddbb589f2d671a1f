"""The learning rate: as written, or scaled by the number of images that a step sees."""

from collections.abc import Mapping
from typing import Any, Literal

from ldm.errors import Fault

DEFAULT_RATE = 1.0e-4
Scale = Literal["none", "linear", "sqrt"]


def scale_rule(value: object) -> Scale:
    """`model.scale_lr` or `--scale_lr` in any of its spellings; true is the linear rule of CompVis, false is none."""
    if isinstance(value, str) and value.lower() in ("none", "linear", "sqrt"):
        return value.lower()  # type: ignore[return-value]
    if value is None or value is False:
        return "none"
    if value is True:
        return "linear"
    raise Fault(
        "CFG03",
        f"scale_lr is {value!r}",
        where="model.scale_lr",
        why="it takes none, linear or sqrt",
        fix="model.scale_lr=none",
    )


def rate_of(model: Mapping[str, Any]) -> tuple[float, Scale]:
    """(base learning rate, scaling rule) of the `model` section; null is as if it were left out."""
    rate = model.get("base_learning_rate")
    return DEFAULT_RATE if rate is None else rate, scale_rule(model.get("scale_lr"))


def scaled_rate(base: float, rule: Scale, images_per_step: int) -> float:
    """linear: Goyal et al. 2017 (arXiv 1706.02677); sqrt, for Adam: Malladi et al. 2022 (arXiv 2205.10287)."""
    factor = {"none": 1.0, "linear": float(images_per_step), "sqrt": images_per_step**0.5}[rule]
    return base * factor


def describe_rate(base: float, rule: Scale, images_per_step: int) -> str:
    rate = scaled_rate(base, rule, images_per_step)
    if rule == "none":
        return f"{rate:.2e}, as written"
    root = "sqrt of " if rule == "sqrt" else ""
    return f"{rate:.2e} = base {base:.2e} x {root}{images_per_step} images a step (scale_lr: {rule})"
