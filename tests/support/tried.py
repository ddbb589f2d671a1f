"""Classes of Lightning's that whole runs are tried with; those that a config may name have to be among them."""

CALLBACKS = (
    "DeviceStatsMonitor",
    "EarlyStopping",
    "LambdaCallback",
    "LearningRateMonitor",
    "ModelSummary",
    "RichModelSummary",
    "TQDMProgressBar",
)
BARS = ("RichProgressBar",)
"""One at a time: in a run of their own."""
LOGGERS = ("CSVLogger", "TensorBoardLogger")
STRATEGIES = ("SingleDeviceStrategy",)
TRIED = {"Callback": (*CALLBACKS, *BARS), "Logger": LOGGERS, "Strategy": STRATEGIES}
"""By the kind of part."""
