"""What of an autoencoder trains, and from what, without building it."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from ldm.errors import Fault
from ldm.files.weights_location import find_source
from ldm.models.model_parts import PartSize, TrainingPlan
from ldm.modules.networks.vae import build_autoencoder
from ldm.modules.outline import Outline, from_outline, outline_of
from ldm.remembered import remembered
from ldm.training.groups import Decision, named_weights
from ldm.training.quantised import WHERE as QUANTISED
from ldm.training.rules import Rule, matching
from ldm.util import Recipe, instantiate_from_config

HALVES = {"encoder": ("encoder", "quant_conv"), "decoder": ("decoder", "post_quant_conv")}
DECODER_ALONE = Rule("decoder alone", matching("encoder.*", "quant_conv.*"), {"train": False}, "model.params.train")


def networks_of(autoencoder: Any) -> dict[str, nn.Module]:
    """Encoder and decoder of diffusers' autoencoder, with the convolutions around a latent."""
    return {name: getattr(autoencoder, name) for half in HALVES.values() for name in half}


def planned(config: Mapping[str, Any], decide: Callable[[Mapping[str, nn.Module]], Decision]) -> TrainingPlan:
    """Both halves, and what of them trains; no memory is taken.

    config  arguments of diffusers' autoencoder
    decide  lets train what trains of networks by name
    """
    networks = networks_of(from_outline(remembered("autoencoder", config, lambda: _outline(config))))
    groups = decide(networks).groups(named_weights(networks))
    sizes = [PartSize.of(name, nn.ModuleList(networks[part] for part in half)) for name, half in HALVES.items()]
    return TrainingPlan(sizes, groups)


def _outline(config: Mapping[str, Any]) -> Outline:
    with torch.device("meta"):
        return outline_of(build_autoencoder(config))


def require_start(lossconfig: Recipe | None, ckpt_path: str | None, from_scratch: bool, files: bool = True) -> None:
    """Raise `Fault` CFG03 without a loss, MOD06 if training would start from noise unasked, MOD01 for lost `files`."""
    where = "model.params"
    if lossconfig is None:
        fix = f"{where}.lossconfig.target=ldm.modules.losses.LPIPSWithDiscriminator"
        raise Fault("CFG03", "the autoencoder has no loss to be trained by", where=f"{where}.lossconfig", fix=fix)
    if not ckpt_path and not from_scratch:
        raise Fault(
            "MOD06",
            "the autoencoder got no weights; training would start from noise",
            where=f"{where}.ckpt_path",
            fix=f"model.params.ckpt_path=FILE, or on purpose: {where}.from_scratch=true",
        )
    if files:
        if ckpt_path:
            find_source(ckpt_path, "vae")
        instantiate_from_config(lossconfig)


def refuse_quantised_base(settings: Mapping[str, Any]) -> None:
    """Raise `Fault` CFG08 for a `base_config`: checkpoints of an autoencoder hold all of it."""
    if settings.get("base_config") is not None:
        why = "its checkpoints hold all of it, which few bits are too coarse for"
        raise Fault("CFG08", "an autoencoder has no base to quantise", where=QUANTISED, why=why, fix="base_config=null")


def refuse_trainer(trainer: Mapping[str, Any]) -> None:
    """Raise `Fault` CFG08 for settings of the Trainer that are made for a single optimizer: DeepSpeed, bf16-master."""
    if "deepspeed" in _named(trainer.get("strategy")):
        raise Fault(
            "CFG08",
            "an autoencoder cannot be trained under DeepSpeed",
            where="lightning.trainer.strategy",
            why="autoencoder and discriminator have an optimizer each; DeepSpeed's engine steps only one",
            fix="lightning.trainer.strategy=ddp",
        )
    if "master" in _named(trainer.get("precision")):
        raise Fault(
            "CFG08",
            "an autoencoder cannot be trained in bf16-master",
            where="lightning.trainer.precision",
            why="autoencoder and discriminator take turns, and sums of gradients would mix what each of them leaves",
            fix="lightning.trainer.precision=bf16-mixed",
        )


def _named(setting: Any) -> str:
    """A strategy or a precision by name, or the import path in its recipe, in small letters."""
    return str(setting.get("target") if isinstance(setting, Mapping) else setting).lower()
