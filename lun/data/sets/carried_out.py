"""What one of several data sets asks of the model, which is more than pictures and captions."""

from collections.abc import Sequence

from ldm.errors import Fault
from ldm.models.base import TrainedModel
from ldm.models.model_parts import TrainingPlan
from lun.data.sets.set_settings import MixSettings, SetSettings

PRIOR = "prior"
_SHARDED = ("fsdp", "deepspeed")


def require_carried_out(model: TrainedModel, mix: MixSettings | None, strategy: str) -> None:
    """Raise `Fault` CFG08 for what a set says and this model, or its strategy, does not carry out.

    strategy  the kind of it, as `lun.strategies.combinations.strategy_kind` names it

    Asked of a model before it has its networks.
    """
    sets: Sequence[SetSettings] = mix.sets if mix else ()
    for one in sets:
        for key in one.for_model:
            if key not in model.heeds:
                where, model_name = f"{one.where}.{key}", type(model).__name__
                raise Fault("CFG08", f"{where} has no effect with {model_name}", where=where, fix=f"~{where}")
    if preserved := next((one for one in sets if one.kind == PRIOR), None):
        _require_base(preserved, model.training_plan(), strategy)


def _require_base(one: SetSettings, plan: TrainingPlan, strategy: str) -> None:
    where = f"{one.where}.kind"
    if strategy in _SHARDED:
        what = f"{where}: {PRIOR} cannot be trained under {strategy}"
        why = "a rank whose examples are all of other sets would not gather the weights of the base with the others"
        raise Fault("CFG08", what, where=where, why=why, fix="lightning.trainer.strategy=ddp")
    if not plan.changes_base:
        return
    numbers = sum(part.parameters for part in plan.parts if part.trained)
    first, rest = plan.changes_base[0], len(plan.changes_base) - 1
    others = f" and {rest:,} others train" if rest else " trains"
    raise Fault(
        "CFG08",
        f"{where}: {PRIOR} needs the model as it was before training, and {first}{others}",
        where=where,
        why="adapters are switched off for that; without them a second, frozen model would have to be kept,"
        f" {numbers / 1e6:,.2f} M numbers or {4 * numbers / 2**30:.1f} GiB in float32",
        fix=f"--base ... configs/options/lora.yaml, or {where}=class with a weight, and pictures of the base's own",
    )
