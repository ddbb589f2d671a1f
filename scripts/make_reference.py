"""Writes configs/KEYS.md, the settings of every part that a config can name, from signatures and docstrings."""

import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ldm.util import get_obj_from_str
from lun.config.reference.docstrings import about, descriptions
from lun.config.reference.json_schema import DESCRIBED, EXTENDS, SEED
from lun.config.schema import described, shown
from lun.config.signature import Parameter, accepted_by

PAGE = Path(__file__).resolve().parents[1] / "configs" / "KEYS.md"
HEAD = """\
# Every key

Made by `scripts/make_reference.py` from the signatures that a config is checked against; a test holds it up to date.
`lightning.trainer` takes the arguments of `lightning.Trainer`. Recipes, layers and sections are in [README](README.md).
"""
SECTIONS = """\
`model` and `data` are recipes (target and params), `lightning` holds `trainer` (arguments of `lightning.Trainer`),
`callbacks` and `logger` (name: recipe); keys that begin with `x-` are free.
"""
TARGETS = {
    "Models (`model`)": [
        "ldm.models.diffusion.ddpm.LatentDiffusion",
        "ldm.models.diffusion.ddpm.DDPM",
        "ldm.models.autoencoder.AutoencoderKL",
    ],
    "Networks (`model.params.unet_config`)": [
        "ldm.modules.networks.compvis.UNetModel",
        "ldm.modules.networks.unet.UNet",
        "ldm.modules.networks.mmdit.MMDiT",
    ],
    "Text encoders (`model.params.cond_stage_config`)": [
        "ldm.modules.encoders.clip.FrozenCLIPEmbedder",
        "ldm.modules.encoders.openclip.FrozenOpenCLIPEmbedder",
        "ldm.modules.encoders.openclip.FrozenOpenCLIPEmbedder2",
        "ldm.modules.encoders.sdxl.SDXLConditioner",
        "ldm.modules.encoders.sd3.SD3Conditioner",
        "ldm.modules.encoders.words.HashedWordEmbedder",
    ],
    "Objective (`model.params.objective`)": [
        "ldm.diffusion.objective.Objective",
        "ldm.diffusion.path.DDPMPath",
        "ldm.diffusion.rectified_flow.RectifiedFlow",
        "ldm.diffusion.edm.EDMPath",
        "ldm.diffusion.weighting.Uniform",
        "ldm.diffusion.weighting.MinSNR",
        "ldm.diffusion.weighting.SoftMinSNR",
        "ldm.diffusion.weighting.Debiased",
        "ldm.diffusion.weighting.P2",
        "ldm.diffusion.weighting.Uncertainty",
        "ldm.diffusion.noise.Gaussian",
        "ldm.diffusion.noise.Offset",
        "ldm.diffusion.noise.Pyramid",
        "ldm.diffusion.timesteps.UniformTimesteps",
        "ldm.diffusion.timesteps.Range",
        "ldm.diffusion.timesteps.LogitNormal",
        "ldm.diffusion.timesteps.LogNormal",
        "ldm.diffusion.timesteps.Mode",
        "ldm.diffusion.timesteps.CosMap",
        "ldm.diffusion.timesteps.Shifted",
        "ldm.diffusion.timesteps.Stratified",
        "ldm.diffusion.loss.MaskedMean",
        "ldm.diffusion.loss.WholeMean",
        "ldm.diffusion.loss.Squared",
        "ldm.diffusion.loss.Absolute",
        "ldm.diffusion.loss.Huber",
        "ldm.diffusion.masks.RandomRectangles",
        "ldm.diffusion.masks.GivenMasks",
    ],
    "Adapters (`model.params.adapter_config`, kinds in its rules)": [
        "ldm.adapters.Adapters",
        "ldm.adapters.LoRA",
        "ldm.adapters.PiSSA",
        "ldm.adapters.DoRA",
        "ldm.adapters.LoHa",
        "ldm.adapters.LoKr",
    ],
    "Quantised bases (`model.params.base_config`)": ["ldm.adapters.Nf4", "ldm.adapters.Int8"],
    "Averaged weights (`model.params.ema_config`)": [
        "ldm.modules.ema.LitEma",
        "ldm.ema.profiles.ConstantDecay",
        "ldm.ema.profiles.InverseGamma",
        "ldm.ema.profiles.PowerDecay",
        "ldm.ema.profiles.TrailingMean",
    ],
    "Averages after training (`python -m lun.posthoc_ema ... --averages YAML`)": [
        "ldm.ema.weightings.LastSteps",
        "ldm.ema.weightings.HalfLifeSteps",
    ],
    "Schedules (`model.params.scheduler_config`)": [
        "ldm.lr_scheduler.WarmupConstant",
        "ldm.lr_scheduler.WarmupCosine",
        "ldm.lr_scheduler.WarmupLinear",
        "ldm.lr_scheduler.WarmupRestarts",
        "ldm.lr_scheduler.WarmupRex",
        "ldm.lr_scheduler.LambdaLinearScheduler",
        "ldm.lr_scheduler.LambdaWarmUpCosineScheduler",
        "ldm.lr_scheduler.LambdaWarmUpCosineScheduler2",
    ],
    "Optimizers (`model.params.optimizer_config`)": [
        "ldm.training.matrices.Adafactor",
        "ldm.training.matrices.Muon",
        "ldm.training.several_optimizers.Joined",
    ],
    "What trains (`model.params.training_config`)": ["ldm.training.rules.Rules"],
    "Autoencoder's loss (`model.params.lossconfig`)": ["ldm.modules.losses.LPIPSWithDiscriminator"],
    "EQ regularisation (`model.params.equivariance`)": ["ldm.modules.equivariance.Equivariance"],
    "Data (`data`)": ["lun.data.module.DataModuleFromConfig"],
    "Sizes (`data.params.buckets`)": ["lun.data.order.buckets.Buckets"],
    "Pictures (`data.params.train`, `validation`)": ["lun.data.local.Local", "lun.data.packed.PackedSet"],
    "Precision (`lightning.trainer.precision`)": [
        "lun.strategies.precision.Bf16Mixed",
        "lun.strategies.precision.Fp16Mixed",
        "lun.strategies.precision.Fp32",
        "lun.strategies.precision.Bf16True",
        "lun.strategies.precision.Bf16Master",
    ],
    "Several devices (`lightning.trainer.strategy`)": [
        "lun.strategies.ddp.DDP",
        "lun.strategies.fsdp.FSDP",
        "lun.strategies.deepspeed.DeepSpeed",
    ],
    "Callbacks (`lightning.callbacks.NAME`)": [
        "lun.callbacks.ImageLogger",
        "lun.callbacks.Checkpoint",
        "lun.callbacks.Divergence",
        "lun.callbacks.Export",
        "lun.callbacks.EmaSnapshots",
        "lun.callbacks.SmoothedProgressBar",
        "lun.callbacks.Throughput",
        "lun.callbacks.LossByNoiseLevel",
        "lun.callbacks.LossBySize",
        "lun.callbacks.LossByTag",
        "lun.callbacks.PictureLosses",
        "lun.callbacks.HeldOutGap",
        "lun.callbacks.SampleScores",
        "lun.callbacks.GradientNorms",
        "lun.callbacks.WeightChanges",
        "lun.callbacks.OffloadFrozen",
        "lun.callbacks.FusedBackward",
        "lun.callbacks.CompiledBlocks",
        "lun.callbacks.BlockSwap",
    ],
    "Loggers (`lightning.logger.NAME`)": ["lun.loggers.JsonlLogger", "lun.loggers.TrackioLogger"],
}
TYPED = {
    "One of several sets (`data.params.train.sets.NAME`)": "lun.data.sets.set_settings.SetRecipe",
    "Filters (`metadata_params`)": "lun.data.metadata.params.MetadataParams",
    "Captions (`captions`, and in `metadata_params`)": "lun.data.metadata.params.CaptionParams",
}
OURS = ("ldm.", "lun.")


def page() -> str:
    """The text of the page."""
    parts = [HEAD, *top_level()]
    for title, targets in TARGETS.items():
        parts.append(f"## {title}\n")
        parts += [section(target) for target in targets]
    for title, target in TYPED.items():
        parts += [f"## {title}\n", "\n".join(typed(get_obj_from_str(target))) + "\n"]
    return "\n".join(parts)


def top_level() -> list[str]:
    """The sections of a file, and the keys of `model` beside its target and params."""
    rows: list[tuple[str, Any, str]] = [("extends", str | list[str], EXTENDS), ("seed", int, SEED)]
    rows += [(f"model.{name}", annotation, said) for name, (annotation, said) in DESCRIBED.items()]
    table = [f"| `{name}` | {described(kind)} | {said} |" for name, kind, said in rows]
    return ["## Top-level keys\n", "\n".join((SECTIONS, "| Key | Takes | |", "|---|---|---|", *table)) + "\n"]


def section(path: str) -> str:
    """One target: its name, what it is, and a table of its keys."""
    target = get_obj_from_str(path)
    said = descriptions(target)
    rows = [row(name, parameter, said.get(name, "")) for name, parameter in accepted(target).items()]
    table = ["| Key | Takes | Default | |", "|---|---|---|---|", *rows] if rows else ["No keys."]
    more = further(target)
    return "\n".join(
        [f"`{path}`: {about(target)}\n", *table, *([f"\nAnd the arguments of `{more}`."] if more else []), ""]
    )


def accepted(target: Callable[..., Any]) -> dict[str, Parameter]:
    """The keys of a target and of those of our own that it hands further ones to."""
    if not further(target):
        return dict(accepted_by(target).parameters)
    own = inspect.signature(target).parameters
    return {name: parameter for name, parameter in accepted_by(target).parameters.items() if name in own}


def further(target: Callable[..., Any]) -> str:
    """The class of a library that takes the rest of the keys, if one does."""
    named = getattr(target, "accepts", "")
    return named if named and not named.startswith(OURS) else ""


def row(name: str, parameter: Parameter, said: str) -> str:
    takes = "" if parameter.annotation is Any else described(parameter.annotation)
    takes = takes.replace("a map", "a recipe") if name.endswith("config") and name != "ddconfig" else takes
    default = "needed" if parameter.required else f"`{plain(parameter.default)}`"
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{name}`", takes, default, said)) + " |"


def plain(value: Any) -> str:
    """A default as one would write it."""
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(plain, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {plain(one)}" for key, one in value.items()) + "}"
    if value is None or isinstance(value, bool | int | float | str):
        return value if isinstance(value, str) and value else shown(value)
    return type(value).__name__ if not inspect.isfunction(value) else value.__name__


def typed(shape: Any) -> Iterator[str]:
    """A table of a TypedDict's own keys, each with the text below it."""
    yield from ("| Key | Takes | |", "|---|---|---|")
    source = inspect.getsource(shape)
    hints = typing.get_type_hints(shape)
    for name, text in re.findall(r'^    (\w+): .*\n    """(.*)"""', source, flags=re.MULTILINE):
        takes = described(hints[name]).replace(" or null", "").replace("|", "\\|")
        yield f"| `{name}` | {takes} | {text.replace('|', chr(92) + '|')} |"


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
