"""Callbacks and loggers of every run; a config changes one by giving its name other params, and drops it by null."""

from typing import Any

DEFAULTS: dict[str, Any] = {
    "lightning": {
        "callbacks": {
            "divergence": {"target": "lun.callbacks.Divergence"},
            "progress": {"target": "lun.callbacks.SmoothedProgressBar"},
            "throughput": {"target": "lun.callbacks.Throughput"},
            "image_logger": {"target": "lun.callbacks.ImageLogger"},
            "periodic_checkpoint_overwrite": {
                "target": "lun.callbacks.Checkpoint",
                "params": {"filename": "every-2k-steps", "every_n_train_steps": 2000, "every_minutes": 15},
            },
        },
        "logger": {"metrics": {"target": "lun.loggers.JsonlLogger"}},
    }
}
