"""float16's loss scale under DeepSpeed, in checkpoints as torch's own scaler stores it."""

from typing import Any, Protocol

from lun.strategies.half import Mixed

ENTRY = Mixed.__qualname__  # under which Lightning stores torch's scaler


class DynamicScalerProtocol(Protocol):
    """What is read and set of DeepSpeed's `DynamicLossScaler` (tried with 0.19.8)."""

    cur_scale: float
    cur_iter: int
    last_overflow_iter: int
    cur_hysteresis: int
    scale_factor: float
    scale_window: int


def scale_state(scaler: DynamicScalerProtocol) -> dict[str, Any]:
    """The state of a torch.amp.GradScaler that would go on likewise, and `steady` and `hysteresis` for DeepSpeed's.

    DeepSpeed grows the scale a step later than torch, so that its count may be one more than torch's can be.
    """
    window = int(scaler.scale_window)
    steady = scaler.cur_iter - scaler.last_overflow_iter - 1
    steady = (steady - 1) % window + 1 if steady > 0 else 0
    return {
        "scale": float(scaler.cur_scale),
        "growth_factor": float(scaler.scale_factor),
        "backoff_factor": 1 / float(scaler.scale_factor),
        "growth_interval": window,
        "_growth_tracker": min(steady, window - 1),
        "steady": steady,
        "hysteresis": int(scaler.cur_hysteresis),
    }


def load_scale_state(scaler: DynamicScalerProtocol, state: dict[str, Any]) -> None:
    """Set what `scale_state` gave, or a torch.amp.GradScaler's state; how fast it grows stays as it is configured."""
    scaler.cur_scale = float(state["scale"])
    scaler.last_overflow_iter = scaler.cur_iter - 1 - int(state.get("steady", state["_growth_tracker"]))
    scaler.cur_hysteresis = int(state.get("hysteresis", scaler.cur_hysteresis))
