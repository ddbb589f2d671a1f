"""Filling the cache of moments at the start of a run, once the first stage has its weights."""

from lightning.pytorch import Callback, LightningModule, Trainer

from ldm.errors import Fault
from lun.data.module import DataModuleFromConfig
from lun.data.moments.encoder import Encoder
from lun.data.moments.fill import Share


class CacheMoments(Callback):
    """Encodes what the cache lacks before the first loader is built; all ranks share the work."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        data: DataModuleFromConfig = trainer.datamodule
        first_stage = require_first_stage(pl_module)
        if trainer.strategy.restore_checkpoint_after_setup and trainer.ckpt_path:
            raise Fault(
                "CFG08",
                "the cache cannot be used when a run goes on under this strategy",
                where="data.params.cache",
                why=f"{type(trainer.strategy).__name__} reads the first stage's weights too late to know them by",
                fix="data.params.cache=false",
            )
        share = Share(trainer.global_rank, trainer.world_size, trainer.strategy.barrier)
        data.cache_moments(Encoder(first_stage, trainer.strategy.root_device), share)


def require_first_stage(model: LightningModule) -> LightningModule:
    """The part whose moments are cached. Raises `Fault` CFG08 for a model of pixels."""
    if not hasattr(model, "first_stage_model"):
        raise Fault(
            "CFG08",
            f"{type(model).__name__} has no first stage whose moments could be cached",
            where="data.params.cache",
            fix="data.params.cache=false",
        )
    part: LightningModule = model.first_stage_model
    return part
