"""Classes of this program that are a part of a run by their kind, and of no use in a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Instead(NamedTuple):
    """Why a class is refused, and what to write in its place."""

    why: str
    fix: str


BASE = Instead("it is the base of others and does nothing by itself", "a class that derives from it")
_EVERY_RUN = Instead("a run makes it by itself, with what the program hands it", "delete the line: nothing is missing")
_DATA_MODULE = Instead(
    "the data module makes it of what the run has", "settings of lun.data.module.DataModuleFromConfig"
)
_LAYER = Instead("it is a layer of a network or a loss here, which builds it", "the network or loss itself")
_ENCODER = Instead("it is a part of a conditioner here, which builds it", "ldm.modules.encoders.sd3.SD3Conditioner")
_WORD = Instead("it is made of what `embeddings` of adapters say", "ldm.adapters.Adapters with embeddings: {NAME: ...}")
_QUANTISED = Instead(
    "it is what a layer becomes below adapters", "'model.params.base_config={target: ldm.adapters.Nf4}'"
)
_FORECAST = Instead("it reckons memory, and nothing is stepped by it", "torch.optim.AdamW")
_PRECISION = Instead(
    "a policy of precision makes it", "lightning.trainer.precision, or lun.strategies.precision.Bf16Mixed"
)

INSIDES: Mapping[str, Instead] = {
    **dict.fromkeys(
        (
            "ldm.lightning_classes.Callback",
            "ldm.lightning_classes.LightningDataModule",
            "ldm.lightning_classes.TQDMProgressBar",
            "ldm.lightning_classes.TorchCheckpointIO",
            "ldm.lightning_module.LightningModule",
            "ldm.adapters.layer.Adapter",
            "ldm.models.base.TrainedModel",
            "ldm.models.logged_steps.LogsSteps",
            "ldm.models.diffusion.latent_scale.ScalesLatents",
            "ldm.models.diffusion.learned_objective.LearnsObjective",
            "ldm.modules.encoders.openclip.OpenCLIPText",
            "ldm.modules.networks.library_network.LibraryNetwork",
            "ldm.training.optimized.OptimizedModel",
            "lun.callbacks.numbers.example_numbers.ExampleNumbers",
            "lun.callbacks.numbers.grouped_losses.GroupedLosses",
            "lun.callbacks.numbers.step_numbers.StepNumbers",
            "lun.loop.boundary.AtStepBoundary",
        ),
        BASE,
    ),
    **dict.fromkeys(
        (
            "lun.callbacks.controls.Controls",
            "lun.callbacks.final.FinalCheckpoint",
            "lun.callbacks.set_numbers.SetNumbers",
            "lun.callbacks.space.DiskSpace",
            "lun.callbacks.stops.Stops",
            "lun.callbacks.unmet_words.UnmetWords",
            "lun.checkpoints.atomic.AtomicIO",
            "lun.loop.position_callback.FollowPosition",
            "lun.probe.meter.ProbeMeter",
            "lun.report.renewal.RunPage",
            "lun.run.fill_caches.FillCaches",
            "lun.run.lightning_trainer.CollectOnceBuilt",
            "lun.run_dir.latest.LinkLatest",
        ),
        _EVERY_RUN,
    ),
    **dict.fromkeys(
        (
            "lun.data.keyed.Keyed",
            "lun.data.order.position_sampler.OnceBatchSampler",
            "lun.data.order.position_sampler.OnceByBucketSampler",
            "lun.data.order.position_sampler.PositionBatchSampler",
            "lun.data.rejects.Replacing",
        ),
        _DATA_MODULE,
    ),
    **dict.fromkeys(
        (
            "ldm.models.diffusion.network_holder.DiffusionWrapper",
            "ldm.modules.losses.batch_norm.BatchNorm",
            "ldm.modules.losses.discriminator.NLayerDiscriminator",
            "ldm.modules.losses.lpips.LPIPS",
            "ldm.modules.losses.vgg.VGG16Features",
            "ldm.modules.networks.patches.PlacedPatches",
            "ldm.modules.networks.vae.FullPrecisionConv2d",
        ),
        _LAYER,
    ),
    "ldm.modules.encoders.sd3.ProjectedCLIP": _ENCODER,
    "ldm.modules.encoders.t5.T5Text": _ENCODER,
    "ldm.adapters.token_embeddings.AddedVectors": _WORD,
    "ldm.adapters.token_embeddings.TokenEmbedding": _WORD,
    "ldm.training.quantised.QuantisedLinear": _QUANTISED,
    "lun.memory.by_shape.ByShape": _FORECAST,
    "lun.memory.eight_bit.EightBit": _FORECAST,
    **dict.fromkeys(
        (
            "lun.strategies.half.HalfWeights",
            "lun.strategies.half.MasterWeights",
            "lun.strategies.half.Mixed",
            "lun.strategies.half.RoundedWeights",
            "lun.strategies.zero.autocast.ZeroPrecision",
        ),
        _PRECISION,
    ),
}
"""By where each is defined. A test holds this to what the packages define: all else that is admitted has its keys."""
