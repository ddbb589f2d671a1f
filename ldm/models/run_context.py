"""What a run settles for the model that it trains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RunContext:
    """The run as its model sees it, settled before anything is built.

    seed           every random draw of the run is keyed by it
    learning_rate  the base rate, scaled by the images of a step where that was asked for
    max_steps      the horizon of a schedule that names none of its own; -1 where only a time limit ends the run
    resumed        all weights come from a checkpoint, so that none are read to start from
    fused          torch's Adam steps all tensors by one kernel; the run knows where that goes
    trainer        the arguments of Lightning's Trainer, of which the model takes what it carries out itself
    """

    seed: int = 0
    learning_rate: float = 1e-4
    max_steps: int = -1
    resumed: bool = False
    fused: bool = False
    trainer: Mapping[str, Any] = field(default_factory=dict)
