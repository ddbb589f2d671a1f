"""What of a model trains, as a table for programs: the file of a run that pages about it are made of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldm.models.model_parts import TrainingPlan
    from ldm.training.groups import Group

FILE = "trains.json"


def what_trains(plan: TrainingPlan, learning_rate: float) -> str:
    """JSON: `networks` with their sizes, and the optimizer's `groups`, each with its rate before any schedule, what its
    rules set besides, and the names of its parameters as rules know them.
    """
    networks = [{"name": part.name, "numbers": part.parameters, "trained": part.trained} for part in plan.parts]
    groups = [_row(group, learning_rate) for group in plan.groups]
    return json.dumps({"networks": networks, "groups": groups}, indent=1, ensure_ascii=False, default=str) + "\n"


def _row(group: Group, learning_rate: float) -> dict[str, Any]:
    return {
        "rules": group.label,
        "learning_rate": group.rate(learning_rate),
        "settings": {name: value for name, value in group.settings.items() if name != "lr"},
        "numbers": group.size,
        "names": group.names,
    }
