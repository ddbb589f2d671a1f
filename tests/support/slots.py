"""A callback that writes down which examples a rank trained on."""

import json
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback


class RecordSlots(Callback):
    """One line a micro-batch in `slots-<rank>.jsonl` of the run: the window it belongs to, and its slots."""

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        with open(Path(trainer.default_root_dir) / f"slots-{trainer.global_rank}.jsonl", "a") as file:
            file.write(json.dumps([pl_module.position.step, batch["slot"].tolist()]) + "\n")


def slots(run: Path, rank: int) -> list[tuple[int, list[int]]]:
    """What `RecordSlots` wrote."""
    lines = (run / f"slots-{rank}.jsonl").read_text().splitlines()
    return [(step, found) for step, found in map(json.loads, lines)]
