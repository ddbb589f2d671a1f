"""The optimizer of OneTrainer's settings: its class, and of its many settings those that the class takes."""

from __future__ import annotations

from typing import Any

from lun.migrate.draft import Draft
from lun.migrate.foreign import Taken
from lun.other_trainers.onetrainer_table import ONETRAINER, optimizer

_PARAMS = {
    "weight_decay": "weight_decay",
    "eps": "eps",
    "momentum": "momentum",
    "nesterov": "nesterov",
    "amsgrad": "amsgrad",
    "d_coef": "d_coef",
    "decouple": "decouple",
    "safeguard_warmup": "safeguard_warmup",
    "use_bias_correction": "use_bias_correction",
}
"""Settings of an optimizer that its class takes by the same name."""
_IDLE = ("adam_w_mode", "foreach", "fused", "capturable", "differentiable", "stochastic_rounding", "factored", "k")
_OF = {
    "Prodigy": ("d_coef", "decouple", "safeguard_warmup", "use_bias_correction"),
    "SGD": ("momentum", "nesterov"),
}
_ALL = ("weight_decay", "eps", "amsgrad")


def set_optimizer(taken: Taken, draft: Draft) -> None:
    """The recipe of the optimizer; what its class does not take is noted."""
    name = str(taken("optimizer.optimizer", "ADAMW"))
    target = optimizer(name)
    own = target.rpartition(".")[2]
    first, second = taken("optimizer.beta1"), taken("optimizer.beta2")
    params: dict[str, Any] = {} if first is None or second is None else {"betas": [first, second]}
    for there, here in _PARAMS.items():
        value = taken(f"optimizer.{there}")
        known = (_OF.get(own, ()) + _ALL) if own not in ("Adafactor", "CAME", "Lion", "Lion8bit") else ("weight_decay",)
        if value in (None, False) or (there == "eps" and own in ("SGD",)):
            continue
        if there in known:
            params[here] = value
        else:
            draft.note("none", f"optimizer.{there} = {value}: {target} does not take it")
    idle = [one for one in taken.rest() if one.removeprefix("optimizer.") in _IDLE and one.startswith("optimizer.")]
    for one in idle:
        taken(one)
        draft.note("idle", f"{one}: as torch finds it fastest, or as the class has it")
    draft.set("model.params.optimizer_config", {"target": target, "params": params})
    for one in [one for one in taken.rest() if one.startswith("optimizer.") and one not in ONETRAINER.rows]:
        draft.note("none", f"{one} = {taken(one)}: `model.params.optimizer_config.params`, where {target} takes it")
