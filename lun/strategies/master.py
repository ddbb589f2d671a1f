"""What bf16-master cannot be right for, or has nothing to do with."""

from typing import Any

from ldm.errors import Fault
from ldm.models.base import TrainedModel
from lun.strategies.optimizers import SCHEDULE_FREE
from lun.strategies.precision import Bf16Master, policy_of

WHERE = "lightning.trainer.precision"


def require_master(model: TrainedModel, precision: Any) -> None:
    """Raise `Fault` CFG08 where a run of `model` cannot have an fp32 master of bfloat16 weights, or has none to keep.

    precision   the Trainer's setting, a name or a recipe
    """
    if not isinstance(policy_of(precision), Bf16Master):
        return
    target = str(model.optimizer_config["target"])
    if target.startswith(SCHEDULE_FREE):
        raise Fault(
            "CFG08",
            f"{target} cannot be used in bf16-master",
            where=WHERE,
            why="its average is made of the weights that the model holds, and these are rounded",
            fix="lightning.trainer.precision=bf16-mixed",
        )
    parts = model.training_plan().parts
    if sum(part.trained for part in parts) == sum(part.precise[0] for part in parts):
        raise Fault(
            "CFG08",
            "bf16-master has nothing to keep a master of",
            where=WHERE,
            why="all that trains are adapters or embeddings, which stay in fp32 in every precision",
            fix="lightning.trainer.precision=bf16-true, which is the same for them, or bf16-mixed",
        )
