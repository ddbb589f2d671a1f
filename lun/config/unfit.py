"""Classes that fit a slot by their kind and yet cannot do their work here, with what does it instead."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Mapping
from typing import Any

from ldm.admission import DRAWER, LIBRARIES, PROJECT, definition, granted
from ldm.errors import Fault
from ldm.missing_packages import install_line
from ldm.shell import quoted
from lun.config.insides import BASE, INSIDES, Instead

_EPOCHS = "it counts Lightning's epochs, and a run here is one endless epoch"
_AVERAGE = Instead(
    "the model averages its weights by itself: in step with what is saved, sampled and resumed",
    "'model.params.ema_config={target: ldm.modules.ema.LitEma, params: {decay: 0.9999}}'",
)
_TRIALS = Instead(
    "it trains for a while before the run, and moves what a resume repeats", "settings of your own choice"
)
_SAVER = Instead("one saver writes all checkpoints, also the one after an error", "lun.callbacks.Checkpoint")
_LAYERS = Instead(
    "it freezes and frees layers by epochs", "model.params.cond_stage_trainable, or a callback of your own in lun/local"
)
_DUMMY = Instead("it stands for what another trainer does", "torch.optim.AdamW")
_CLOSURE = Instead(
    "its step computes the loss by itself, which float16, accumulation and an autoencoder's two optimizers rule out",
    "the class of the same name without Closure",
)

_CALLBACKS = "lightning.pytorch.callbacks."
_STRATEGIES = "lightning.pytorch.strategies."
_ADAMW = "torch.optim.AdamW"
_XLA = Instead("nobody has tried a TPU", "lightning.trainer.accelerator=cuda or cpu")


def _ours(target: str) -> Instead:
    return Instead("it knows nothing of the averages, precisions and checkpoints of a run here", target)


UNFIT: Mapping[str, Instead] = {
    _CALLBACKS + "callback.Callback": BASE,
    _CALLBACKS + "checkpoint.Checkpoint": BASE,
    _CALLBACKS + "progress.progress_bar.ProgressBar": BASE,
    _CALLBACKS + "prediction_writer.BasePredictionWriter": BASE,
    _CALLBACKS + "finetuning.BaseFinetuning": _LAYERS,
    _CALLBACKS + "finetuning.BackboneFinetuning": _LAYERS,
    _CALLBACKS + "batch_size_finder.BatchSizeFinder": _TRIALS,
    _CALLBACKS + "lr_finder.LearningRateFinder": _TRIALS,
    _CALLBACKS + "gradient_accumulation_scheduler.GradientAccumulationScheduler": Instead(
        _EPOCHS, "lightning.trainer.accumulate_grad_batches=4"
    ),
    _CALLBACKS + "pruning.ModelPruning": Instead("it renames the weights that it prunes", "a callback of your own"),
    _CALLBACKS + "on_exception_checkpoint.OnExceptionCheckpoint": _SAVER,
    _CALLBACKS + "model_checkpoint.ModelCheckpoint": _SAVER,
    _CALLBACKS + "stochastic_weight_avg.StochasticWeightAveraging": _AVERAGE,
    _CALLBACKS + "weight_averaging.WeightAveraging": _AVERAGE,
    _CALLBACKS + "weight_averaging.EMAWeightAveraging": _AVERAGE,
    _CALLBACKS + "spike.SpikeDetection": Instead("it ends the run without a save", "lun.callbacks.Divergence"),
    _CALLBACKS + "throughput_monitor.ThroughputMonitor": Instead(
        "it does not know what a batch of ours holds", "lun.callbacks.Throughput"
    ),
    _CALLBACKS + "timer.Timer": Instead(_EPOCHS, "--time-limit 8:00"),
    _STRATEGIES + "ddp.DDPStrategy": _ours("lun.strategies.ddp.DDP"),
    _STRATEGIES + "fsdp.FSDPStrategy": _ours("lun.strategies.fsdp.FSDP"),
    _STRATEGIES + "model_parallel.ModelParallelStrategy": _ours("lun.strategies.fsdp.FSDP"),
    _STRATEGIES + "deepspeed.DeepSpeedStrategy": _ours("lun.strategies.deepspeed.DeepSpeed"),
    _STRATEGIES + "xla.XLAStrategy": _XLA,
    _STRATEGIES + "single_xla.SingleDeviceXLAStrategy": _XLA,
    "lightning.pytorch._graveyard.tpu.SingleTPUStrategy": _XLA,
    "lightning.pytorch.loggers.logger.DummyLogger": Instead("it writes nothing", "lun.loggers.JsonlLogger"),
    "torch.optim.lbfgs.LBFGS": Instead("it computes the loss several times a step, each time of other noise", _ADAMW),
    "torch.optim.sparse_adam.SparseAdam": Instead("it takes sparse gradients, and those here are dense", _ADAMW),
    "torch.optim.Muon": Instead(
        "it takes matrices alone, and networks have convolutions, norms and biases, too",
        "the layer muon behind --base's files: ldm.training.matrices.Muon beside AdamW",
    ),
    "torch.optim.optimizer.Optimizer": BASE,
    "torch.optim.lr_scheduler.LRScheduler": BASE,
    "transformers.optimization.AdafactorSchedule": Instead(
        "it only shows the rates of one optimizer", "model.params.scheduler_config=null"
    ),
    "transformers.trainer_pt_utils.LayerWiseDummyOptimizer": _DUMMY,
    "transformers.trainer_pt_utils.LayerWiseDummyScheduler": _DUMMY,
    "schedulefree.adamw_schedulefree_closure.AdamWScheduleFreeClosure": _CLOSURE,
    "schedulefree.radam_schedulefree_closure.RAdamScheduleFreeClosure": _CLOSURE,
    "schedulefree.sgd_schedulefree_closure.SGDScheduleFreeClosure": _CLOSURE,
}

ONES_TRIED: Mapping[str, frozenset[str]] = {"pytorch_optimizer": frozenset({"CAME", "Lion", "SOAP"})}
"""Of a library that holds many: those that step, are stored and go on as they should, which a test shows."""

NEEDS: Mapping[str, str] = {
    "lightning.pytorch.loggers.wandb.WandbLogger": "wandb",
    "lightning.pytorch.loggers.comet.CometLogger": "comet_ml",
    "lightning.pytorch.loggers.mlflow.MLFlowLogger": "mlflow",
    "lightning.pytorch.loggers.neptune.NeptuneLogger": "neptune",
    "lun.loggers.trackio_logger.TrackioLogger": "trackio",
    "lightning.pytorch.loggers.tensorboard.TensorBoardLogger": "tensorboard",
    "lightning.pytorch.callbacks.progress.rich_progress.RichProgressBar": "rich",
    "lightning.pytorch.callbacks.rich_model_summary.RichModelSummary": "rich",
}
"""Packages that a class imports no earlier than it is built."""


def require_fit(path: str, value: Any) -> None:
    """Raise `Fault` CFG08 for an admitted class that cannot do its work here, DEP01 where its package is missing."""
    home = definition(value)
    if reason := _of_no_use(home, value):
        raise Fault("CFG08", f"{path} cannot be used here", why=reason.why, fix=reason.fix)
    package = NEEDS.get(home)
    if package and importlib.util.find_spec(package) is None:
        why = f"it needs the package {package}, which is not installed"
        raise Fault("DEP01", f"cannot load target {path}", why=why, fix=install_line(package))


def _of_no_use(home: str, value: Any) -> Instead | None:
    if reason := UNFIT.get(home) or INSIDES.get(home):
        return reason
    package = home.partition(".")[0]
    if package in ONES_TRIED and value.__name__ not in ONES_TRIED[package] and package not in granted():
        names = ", ".join(f"{package}.{name}" for name in sorted(ONES_TRIED[package]))
        why = "nobody has tried whether it goes on as it should where a run stopped"
        return Instead(why, f"{names}; or --allow {quoted(package)}")
    if not inspect.isclass(value) or package not in (*LIBRARIES, *PROJECT) or home.startswith(f"{DRAWER}."):
        return None
    if inspect.isabstract(value) and package in LIBRARIES:
        return BASE
    private = value.__qualname__.startswith("_")
    return Instead("it is an inside of its package", "a class that is documented") if private else None
