"""Every parameter of every constructor that a config can name changes what is built, or is refused by name."""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import torch
import yaml
from support.described import described
from support.runs import TINY
from support.sd3 import T5 as SMALL_T5
from support.sd3 import TINY as TINY_MMDIT
from support.sd3 import VOCABULARY
from torch import nn

import ldm
import lun
from ldm.admission import DRAWER, refusal
from ldm.diffusion.loss import Absolute, WholeMean
from ldm.diffusion.masks import RandomRectangles
from ldm.diffusion.noise import Offset
from ldm.diffusion.objective import Objective
from ldm.diffusion.path import DDPMPath
from ldm.diffusion.timesteps import Range
from ldm.diffusion.weighting import MinSNR
from ldm.ema.profiles import PowerDecay
from ldm.errors import Fault
from ldm.modules.equivariance import Equivariance
from ldm.util import instantiate_from_config
from lun.config.insides import INSIDES
from lun.config.schema import alternatives, fits
from lun.config.signature import Parameter, accepted_by
from lun.data.cache.cache_settings import Cache
from lun.data.order.buckets import Buckets

MODEL: Mapping[str, Any] = yaml.safe_load(TINY.read_text("utf-8"))["model"]["params"]
SMALL_TEXT = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "projection_dim": 8,
    "vocab_size": 16,
}
WEIGHTS = [nn.Parameter(torch.ones(2, 2))]
CYCLE = {"warm_up_steps": [2], "f_min": [0.1], "f_max": [1.0], "f_start": [0.0], "cycle_lengths": [9]}
UNET = {
    "image_size": 4,
    "in_channels": 4,
    "out_channels": 4,
    "model_channels": 32,
    "num_res_blocks": 1,
    "attention_resolutions": [1],
    "channel_mult": [1, 2],
    "num_heads": 2,
    "context_dim": 8,
    "use_spatial_transformer": True,
}
BASE: Mapping[str, Mapping[str, Any]] = {
    "ldm.ema.weightings.LastSteps": {"steps": 3.0},
    "ldm.ema.weightings.HalfLifeSteps": {"steps": 3.0},
    "lun.callbacks.numbers.sample_scores.SampleScores": {"clip": "a", "dino": "b", "features": "c"},
    "ldm.diffusion.timesteps.Range": {"low": 1, "high": 9},
    "ldm.diffusion.timesteps.Stratified": {"global_batch": 4},
    "ldm.diffusion.timesteps.Shifted": {"factor": 3.0},
    "ldm.lr_scheduler.LambdaLinearScheduler": CYCLE,
    "ldm.lr_scheduler.LambdaWarmUpCosineScheduler2": CYCLE,
    "ldm.lr_scheduler.LambdaWarmUpCosineScheduler": {
        "warm_up_steps": 2,
        "lr_min": 0.1,
        "lr_max": 1.0,
        "lr_start": 0.0,
        "max_decay_steps": 9,
    },
    "ldm.lr_scheduler.WarmupCosine": {"total_steps": 9},
    "ldm.lr_scheduler.WarmupLinear": {"total_steps": 9},
    "ldm.lr_scheduler.WarmupRestarts": {"total_steps": 9},
    "ldm.lr_scheduler.WarmupRex": {"total_steps": 9},
    "ldm.training.matrices.Adafactor": {"params": WEIGHTS},
    "ldm.training.matrices.Muon": {"params": WEIGHTS},
    "ldm.training.several_optimizers.Joined": {
        **{"params": WEIGHTS, "lr": 0.1, "otherwise": "one"},
        **{"optimizers": {"one": {"target": "torch.optim.AdamW"}}},
    },
    "ldm.models.autoencoder.AutoencoderKL": MODEL["first_stage_config"]["params"],
    "ldm.models.diffusion.ddpm.DDPM": {"unet_config": MODEL["unet_config"], "image_size": 4},
    "ldm.models.diffusion.ddpm.LatentDiffusion": {
        name: MODEL[name] for name in ("unet_config", "image_size", "first_stage_config", "cond_stage_config")
    },
    "ldm.ema.lit_ema.LitEma": {"parameters": nn.Linear(2, 2)},
    "ldm.ema.profiles.TrailingMean": {"steps": 9},
    "ldm.adapters.low_rank.PiSSA": {"rank": 4},
    "ldm.adapters.placement.Adapters": {"rules": {}},
    "ldm.training.rules.Rules": {"rules": {}},
    "ldm.modules.encoders.clip.FrozenCLIPEmbedder": {"from_scratch": True, "config": SMALL_TEXT},
    "ldm.modules.encoders.openclip.FrozenOpenCLIPEmbedder": {"from_scratch": True, "config": SMALL_TEXT},
    "ldm.modules.encoders.openclip.FrozenOpenCLIPEmbedder2": {"from_scratch": True, "config": SMALL_TEXT},
    "ldm.modules.encoders.sdxl.SDXLConditioner": {"from_scratch": True, "clip": SMALL_TEXT, "open_clip": SMALL_TEXT},
    "ldm.modules.encoders.sd3.SD3Conditioner": {
        **{"from_scratch": True, "clip": SMALL_TEXT, "open_clip": SMALL_TEXT},
        **{"t5": SMALL_T5, "tokenizer_3": str(VOCABULARY)},
    },
    "ldm.modules.encoders.words.HashedWordEmbedder": {"from_scratch": True},
    "ldm.modules.losses.contperceptual.LPIPSWithDiscriminator": {"disc_start": 1, "perceptual_features": "random"},
    "ldm.modules.networks.compvis.UNetModel": UNET,
    "ldm.modules.networks.mmdit.MMDiT": {"from_scratch": True, **TINY_MMDIT},
    "ldm.modules.networks.unet.UNet": MODEL["unet_config"]["params"],
    "lun.callbacks.checkpointing.Checkpoint": {"filename": "a", "every_n_train_steps": 3},
    "lun.data.order.buckets.Buckets": {"resolutions": (512,)},
    "lun.data.module.DataModuleFromConfig": {"batch_size": 2},
}
"""What a class is built with where its parameters are needed, or its parts are better small."""
KINDS_OF_ADAPTERS = *(f"ldm.adapters.low_rank.{kind}" for kind in ("LoRA", "PiSSA", "DoRA")), "ldm.adapters.products."


OTHER: Mapping[str, Any] = {
    "ckpt_path": "weights.safetensors",
    "config": {**SMALL_TEXT, "num_hidden_layers": 2},
    "clip": {**SMALL_TEXT, "num_hidden_layers": 2},
    "open_clip": {**SMALL_TEXT, "num_hidden_layers": 2},
    "t5": {**SMALL_T5, "num_layers": 1},
    "encoder_ucg_rate": {"t5": 0.5},
    "ema_config": {"target": "ldm.modules.ema.LitEma", "params": {"decay": 0.5}},
    "optimizer_config": {"target": "torch.optim.SGD"},
    "scheduler_config": {"target": "ldm.lr_scheduler.WarmupConstant"},
    "lossconfig": {"target": "ldm.modules.losses.LPIPSWithDiscriminator", "params": {"disc_start": 1}},
    "ddconfig": {**MODEL["first_stage_config"]["params"]["ddconfig"], "ch_mult": [1, 1, 2]},
    "unet_config": {"target": "ldm.modules.networks.unet.UNet"},
    "first_stage_config": {"target": "ldm.models.autoencoder.AutoencoderKL"},
    "cond_stage_config": {"target": "ldm.modules.encoders.words.HashedWordEmbedder", "params": {"dim": 4}},
    "training_config": {
        "target": "ldm.training.rules.Rules",
        "params": {"rules": {"slow": {"match": "*", "lr": 1e-7}}},
    },
    "adapter_config": {"target": "lun.local.lora.Adapters"},
    "base_config": {"target": "ldm.adapters.Int8"},
    "metrics": {"own": torch.nn.Identity()},
    "rules": {"slow": {"match": "*", "lr": 1e-7}},
    "embeddings": {"cat": {"init": "cat"}},
    "train": {"target": "lun.data.local.Local"},
    "validation": {"target": "lun.data.local.Local"},
    "test": {"target": "lun.data.local.Local"},
    "predict": {"target": "lun.data.local.Local"},
    "buckets": {"resolutions": [256]},
    "cache": True,
    "path": DDPMPath(timesteps=7),
    "timesteps": Range(1, 2),
    "law": Range(1, 2),
    "noise": Offset(0.5),
    "weighting": MinSNR(),
    "loss": Absolute(),
    "mean": WholeMean(),
    "mask": RandomRectangles(),
    "equivariance": Equivariance(),
    "otherwise": RandomRectangles(0.5),
    "objective": Objective(prediction="v"),
    "profile": PowerDecay(0.2),
    "parameters": nn.Linear(3, 2),
    "params": [nn.Parameter(torch.ones(3, 2))],
    "device": "meta",
    "max_length": 150,
    "attention_resolutions": [2],
    "channel_mult": [1, 1],
    "num_head_channels": 8,
    "max_crop": 0.5,
    "sigma_rel": 0.2,
    "prompts": ["a fox"],
    "log_images_kwargs": {"N": 2},
    "start": 7,
    "smallest": 0.5,
}
"""A value other than the default, by the name of the parameter, where its type does not tell one."""
OTHER_OF: Mapping[str, Any] = {
    "Cache.text": True,
    "HashedWordEmbedder.max_length": 3,
    "HashedWordEmbedder.buckets": 7,
    "LitEma.total_steps": 40,
    "Adafactor.eps": [None, 0.5],
    "Adafactor.foreach": True,
    "Muon.adjust_lr_fn": "original",
    "Joined.optimizers": {"one": {"target": "torch.optim.SGD"}},
    "Joined.otherwise": "two",
    "DDPMPath.timesteps": 7,
    "RectifiedFlow.timesteps": 7,
    "EDMPath.timesteps": 7,
    "LogNormal.mean": 0.25,
    "LogitNormal.mean": 0.25,
    "DDPM.timesteps": 7,
    "LatentDiffusion.timesteps": 7,
    "AutoencoderKL.train": "decoder",
    "AutoencoderKL.embed_dim": 5,
    "UNetModel.num_heads": 4,
    "UNetModel.dims": 3,
    "Range.low": 2,
    "LatentDiffusion.cond_stage_key": "other",
    "Export.ema": False,
}
BESIDE: Mapping[str, Mapping[str, Any]] = {
    "cosine_s": {"beta_schedule": "cosine"},
    "zero_terminal_snr": {},
    "Checkpoint.mode": {"monitor": "val/loss", "every_n_train_steps": None},
    "SD3Conditioner.context_dim": {"t5": None},
    "cond_stage_lr_multiple": {"cond_stage_trainable": True},
    "examples_per_step": {"half_life_images": 64.0, "examples_per_step": 4},
    "LitEma.total_steps": {"start": "50%", "total_steps": 10},
    "Export.outside": {"dirpath": "../exports", "outside": True},
    "half_life_images": {"examples_per_step": 2},
}
"""Settings under which alone a parameter says anything, so that they stand beside it."""
NO_PARTS: Mapping[str, str] = {
    **{path: inside.why for path, inside in INSIDES.items()},
    "lun.strategies.deepspeed.DeepSpeed": "needs an optional package; `distributed/test_zero.py` trains with it",
    "lun.data.local.Local": "needs a folder: `test_data_settings.py`",
    "lun.data.packed.PackedSet": "needs a packed set: `test_data_settings.py`",
}
"""Found by their kind, but not to be named in a config, or tried elsewhere."""
_WEIGHTS = "says where weights come from, and these are made up: `integration/test_weights_in.py`"
_COMPVIS = "means nothing beside a spatial transformer in CompVis' class either, and every public config names it"
EXCEPTIONS: Mapping[str, str] = {
    "UNetModel.num_heads_upsample": _COMPVIS,
    "UNetModel.use_new_attention_order": _COMPVIS,
    "UNetModel.legacy": _COMPVIS,
    "FrozenCLIPEmbedder.version": _WEIGHTS,
    "FrozenOpenCLIPEmbedder.version": _WEIGHTS,
    "FrozenOpenCLIPEmbedder2.version": _WEIGHTS,
    "SDXLConditioner.version": _WEIGHTS,
    "SD3Conditioner.version": _WEIGHTS,
}
"""Parameters that are accepted without effect, each with its reason."""


def constructors() -> dict[str, Callable[..., Any]]:
    """All public classes and functions of the two packages that a config may build."""
    found: dict[str, Callable[..., Any]] = {}
    for package in (ldm, lun):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith(".__main__") and not f"{module.name}.".startswith(f"{DRAWER}."):
                for name, value in vars(importlib.import_module(module.name)).items():
                    home = getattr(value, "__module__", None) == module.name and callable(value)
                    if home and not name.startswith("_") and refusal(value) is None:
                        found[f"{module.name}.{name}"] = value
    return found


SETTINGS = {"lun.data.order.buckets.Buckets": Buckets, "lun.data.cache.cache_settings.Cache": Cache}
"""What a map of settings becomes."""
PARTS = {path: target for path, target in constructors().items() if path not in NO_PARTS} | SETTINGS


def parameters(target: Callable[..., Any]) -> dict[str, Parameter]:
    """Its parameters that can have several values, without those of a library that it hands further ones to."""
    own = set(inspect.signature(target).parameters)
    handed = getattr(target, "accepts", "")
    own |= set(accepted_by(target).parameters) if handed.startswith(("ldm.", "lun.")) else set()
    own |= set(accepted_by(target).parameters) if not handed else set()
    return {
        name: parameter
        for name, parameter in accepted_by(target).parameters.items()
        if name in own and not (get_origin(parameter.annotation) is Literal and len(get_args(parameter.annotation)) < 2)
    }


CASES = [(path, name) for path, target in PARTS.items() for name in parameters(target)]


def other_value(path: str, name: str, parameter: Parameter, now: Any) -> Any:
    """A value that a config could give this parameter in the place of `now`."""
    short = f"{path.rpartition('.')[2]}.{name}"
    if short in OTHER_OF:
        return OTHER_OF[short]
    choices = alternatives(parameter.annotation)
    literal = [word for choice in choices if get_origin(choice) is Literal for word in get_args(choice)]
    if bool in choices and len(choices) == 1:
        return not now
    if name in OTHER:
        return OTHER[name]
    if literal:
        return next(word for word in literal if word != now)
    if isinstance(now, list | tuple) and now:
        return [value * 2 + 1 for value in now]
    if float in choices:
        return 0.25 if not now else now / 2
    if int in choices:
        return 3 if not now else now + 1
    if str in choices:
        return "other"
    if any(get_origin(choice) in (list, tuple, Sequence) for choice in choices):
        return ["other"] if "str" in str(choices) else [0.25]
    raise AssertionError(f"say another value for {short} in OTHER_OF: it takes {parameter.annotation}")


def handed(path: str) -> tuple[Any, ...]:
    """What the program hands a class before its parameters."""
    return (nn.Linear(8, 8), torch.Generator().manual_seed(0)) if path.startswith(KINDS_OF_ADAPTERS) else ()


def outcome(path: str, params: Mapping[str, Any]) -> Any:
    """What is built, described, or the words with which it is refused."""
    torch.manual_seed(0)
    try:
        return described(PARTS[path](*handed(path), **params))
    except (Fault, ValueError) as error:
        return f"{error} {getattr(error, 'where', '')} {getattr(error, 'why', '')}"


@functools.cache
def plain(path: str) -> Any:
    return outcome(path, BASE.get(path, {}))


def test_what_is_passed_over_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert NO_PARTS.keys() <= constructors().keys()
    assert BASE.keys() <= PARTS.keys()
    assert set(EXCEPTIONS) <= {f"{path.rpartition('.')[2]}.{name}" for path, name in CASES}
    with capsys.disabled():
        print(f"\n{len(CASES)} settings of {len(PARTS)} parts tried, {len(EXCEPTIONS)} have no effect")


@pytest.mark.parametrize("path, name", CASES, ids=[".".join((path.rpartition(".")[2], name)) for path, name in CASES])
def test_another_value_builds_something_else_or_is_refused_by_name(path: str, name: str, tmp_path: Path) -> None:
    short = f"{path.rpartition('.')[2]}.{name}"
    base = dict(BASE.get(path, {}))
    beside = {**base, **BESIDE.get(short, BESIDE.get(name, {}))}
    before = plain(path) if beside == base else outcome(path, beside)
    assert not isinstance(before, str), f"{path} cannot be built: {before}"
    parameter = parameters(PARTS[path])[name]
    other = other_value(path, name, parameter, beside.get(name, parameter.default))
    after = outcome(path, {**beside, name: other})
    if short in EXCEPTIONS:
        assert after == before, f"{short} has an effect: take it out of EXCEPTIONS"
        return
    assert after != before, f"{short}={other!r} is accepted without effect"


ODD: list[Any] = [None, True, -1, 0, 0.5, 10**400, "", "x", [], [1], ["x"], {}, {"x": 1}, {"x": None}]
GIVEN = ("params", "parameters")
"""What the program hands an optimizer or an average, and no person says."""


def test_odd_values_that_pass_the_check_of_their_kind_are_built_or_refused_in_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Networks and encoders aside, whose settings make them as large as they like: `test_unet.py` tries one's."""
    tried = 0
    for path, name in CASES:
        parameter = parameters(PARTS[path])[name]
        for odd in ODD if name not in GIVEN and not path.startswith("ldm.modules.") else ():
            if fits(odd, parameter.annotation) or (odd is None and parameter.nullable):
                tried += 1
                recipe = {"target": path, "params": {**BASE.get(path, {}), name: odd}}
                with suppress(Fault):
                    instantiate_from_config(recipe, *handed(path))
    with capsys.disabled():
        print(f"\n{tried} odd values tried")
    assert tried > 500
