"""float16's loss scale, watched: whoever trains in it sees how many steps it cost."""

from typing import Protocol


class GradScalerProtocol(Protocol):
    """What is asked of a torch.amp.GradScaler."""

    def get_scale(self) -> float: ...


class LossScale:
    """Counts the optimizer steps that `scaler` (None in other precisions) skipped: each of them lowers its scale."""

    def __init__(self, scaler: GradScalerProtocol | None) -> None:
        self.scaler = scaler
        self.skipped = 0
        self._scale = scaler.get_scale() if scaler is not None else 1.0

    def watch(self) -> dict[str, float]:
        """Call it after every optimizer step; what is to be logged, nothing without a scaler."""
        if self.scaler is None:
            return {}
        before, self._scale = self._scale, self.scaler.get_scale()
        self.skipped += self._scale < before
        return {"train/loss_scale": self._scale, "train/skipped_steps": float(self.skipped)}
