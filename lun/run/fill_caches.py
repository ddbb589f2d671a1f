"""Filling the caches at the start of a run, once the frozen parts have their weights."""

import logging
from typing import Any

from ldm.errors import Fault
from ldm.lightning_classes import Callback, LightningModule, Trainer
from ldm.models.model_parts import PartSize
from lun.data.cache.cache_settings import Cache
from lun.data.cache.latents.encoder import LatentEncoder
from lun.data.cache.shards.filling import Share
from lun.data.cache.text.encoder import TextEncoder
from lun.data.module import DataModuleFromConfig

log = logging.getLogger(__name__)

FIRST_STAGE, TEXT_ENCODER = "first stage", "text encoder"  # as models name their parts


class FillCaches(Callback):
    """Encodes what the caches lack before the first loader is built; all ranks share the work."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        data: DataModuleFromConfig = trainer.datamodule
        require_first_stage(pl_module)
        first_stage = pl_module.first_stage_model
        if trainer.strategy.restore_checkpoint_after_setup and trainer.ckpt_path:
            raise Fault(
                "CFG08",
                "the cache cannot be used when a run goes on under this strategy",
                where="data.params.cache",
                why=f"{type(trainer.strategy).__name__} reads the first stage's weights too late to know them by",
                fix="data.params.cache=false",
            )
        if getattr(trainer.strategy, "cuts_frozen_parts", False):
            raise Fault(
                "CFG08",
                "the cache cannot be used under ZeRO stage 3",
                where="data.params.cache",
                why="it cuts up frozen parts as well, so that no rank can encode alone or know which weights these are",
                fix="lightning.deepspeed.stage=2, or data.params.cache=false",
            )
        share = Share(trainer.global_rank, trainer.world_size, trainer.strategy.barrier)
        data.cache_moments(LatentEncoder(first_stage, trainer.strategy.root_device), share)
        if data.cache and data.cache.text is not False and (encoder := frozen_text_encoder(pl_module)):
            pl_module.conditioner.embedder = data.cache_text(TextEncoder(encoder, trainer.strategy.root_device), share)
            if not data.captions_settled:
                log.info("cache    captions are drawn anew, so that most of them are encoded as they come")
            elif not trainer.strategy.restore_checkpoint_after_setup:  # others hold parts that cannot be moved alone
                encoder.to("cpu")


def require_first_stage(model: Any) -> None:
    """Raise `Fault` CFG08 for a model without a part whose moments are cached, whether it has its networks or not."""
    if FIRST_STAGE not in getattr(model, "part_recipes", dict)():
        raise Fault(
            "CFG08",
            f"{type(model).__name__} has no first stage whose moments could be cached",
            where="data.params.cache",
            fix="data.params.cache=false",
        )


def require_lasting_captions(model: Any, cache: Cache | None) -> None:
    """Raise `Fault` CFG08 where captions are to be cached and a part of the text encoder trains.

    Asked of a model before it has its networks. Weights that a rule picks, adapters or words of one's own: whatever
    trains in it changes what it gives.
    """
    if cache is None or not cache.text or not any(_reads_and_trains(part) for part in model.training_plan().parts):
        return
    raise Fault(
        "CFG08",
        "captions cannot be cached while the text encoder trains",
        where="data.params.cache.text",
        why="what it gives for a caption changes from step to step",
        fix="data.params.cache.text=false, which keeps the pictures' moments alone",
    )


def _reads_and_trains(part: PartSize) -> bool:
    return part.name == TEXT_ENCODER and part.trained > 0


def frozen_text_encoder(model: Any) -> Any:
    """The part that reads captions; None where it is trained, since what it gives then changes from step to step."""
    if getattr(model, "text_encoder_trains", True):
        log.info("cache    the text encoder is trained, so that what it gives is not kept")
        return None
    return model.cond_stage_model
