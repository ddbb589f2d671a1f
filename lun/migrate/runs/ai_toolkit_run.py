"""ai-toolkit's job: what settings of its first process come to together; the rest is in the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldm.errors import Fault
from lun.migrate import ai_toolkit
from lun.migrate.draft import Draft
from lun.migrate.foreign import Taken, joined
from lun.migrate.runs.adapter_rules import AdapterRules, kind_among, of_what_trained
from lun.migrate.runs.base_model import model_of
from lun.migrate.runs.schedule_recipe import known_schedule, lay_schedule
from lun.other_trainers.ai_toolkit_table import AI_TOOLKIT
from lun.other_trainers.answers import OPTIMIZERS
from lun.other_trainers.counterparts import CALLBACKS

_TRAINERS = ("sd_trainer", "diffusion_trainer", "ui_trainer")
_ARCHITECTURES = {
    "sd1": ("sd15",),
    "sd15": ("sd15",),
    "sd2": ("sd21-v", "sd21-base"),
    "sdxl": ("sdxl",),
    "sd3": ("sd3-medium", "sd35-medium", "sd35-large"),
}
_SWITCHES = (("is_xl", "sdxl"), ("is_v3", "sd3"), ("is_v2", "sd2"))
_ELSEWHERE = ("is_flux", "is_pixart", "is_auraflow", "is_lumina2", "is_ssd", "is_vega")


def read(content: Mapping[str, Any]) -> Draft:
    """The configuration of a run. Raises `Fault` CFG02 for what is no such file, CFG03 for what is not trained here."""
    config = content["config"]
    process = config["process"][0]
    kept = {name: value for name, value in process.items() if name != "datasets"}
    taken, draft = Taken({**joined(kept), "config.name": config.get("name")}, "config.process.0"), Draft(AI_TOOLKIT)
    if (trainer := taken("type")) not in (None, *_TRAINERS):
        raise Fault("CFG03", f"a process of type {trainer} is not read", where="config.process.0.type")
    _model(taken, draft)
    _data(taken, draft, content)
    _rates(taken, draft)
    if "network" in process:
        _adapters(taken, draft)
    _optimizer(taken, draft)
    _samples(taken, draft)
    draft.set("lightning.trainer", {"max_steps": int(taken.number("train.steps", 1000)), "max_epochs": None})
    draft.set("lightning.trainer.gradient_clip_val", taken.number("train.max_grad_norm", 1))
    averages = bool(taken("train.ema_config.use_ema", "train.ema_config.ema_decay" in taken.given))
    draft.set("model.params.use_ema", averages)
    if not averages:
        taken("train.ema_config.ema_decay")
    if len(config["process"]) > 1:
        draft.note("none", f"config.process: the first of {len(config['process'])} is read")
    for name in (name for name in content if name != "config"):
        draft.note("idle", f"{name}: what a job says of itself")
    draft.translate(taken)
    return draft


def _model(taken: Taken, draft: Draft) -> None:
    weights, named = taken.text("model.name_or_path"), str(taken("model.arch", "")).partition(":")[0]
    switches = [family for switch, family in _SWITCHES if taken(f"model.{switch}")]
    other = [name for name in _ELSEWHERE if taken(f"model.{name}")]
    kind = named or (switches[0] if switches else "sd1")
    if other or kind not in _ARCHITECTURES:
        fix = "python main.py --list-presets"
        raise Fault("CFG03", f"{other[0] if other else kind} is not trained here", where="model.arch", fix=fix)
    draft.stand_on(model_of(weights, _ARCHITECTURES[kind]))
    if weights:
        draft.set("model.params.ckpt_path", weights)


def _data(taken: Taken, draft: Draft, content: Mapping[str, Any]) -> None:
    """The folders, with the process' words on all of them."""
    batch = int(taken.number("train.batch_size", 1))
    trigger = taken("trigger_word")
    datasets = content["config"]["process"][0].get("datasets")
    if datasets:
        draft.lay(ai_toolkit.read(content))
    else:
        draft.note("none", f"the process names no pictures: --data_root DIR (trigger_word: {trigger})")
    draft.set("data.params.batch_size", batch)
    if "ucg_rate" not in draft.settings.get("model", {}).get("params", {}):
        draft.set("model.params.ucg_rate", taken.number("train.prompt_dropout_prob"))
    if any(one.get("cache_latents_to_disk") or one.get("cache_latents") for one in datasets or ()):
        draft.stand_on("latent-cache")


def _rates(taken: Taken, draft: Draft) -> None:
    whole = taken.number("train.lr", 1e-6)
    rate = taken.number("train.unet_lr", whole)
    trains, text = bool(taken("train.train_text_encoder", True)), taken.number("train.text_encoder_lr", whole)
    draft.set("model.base_learning_rate", rate)
    draft.set("model.params.cond_stage_trainable", trains)
    if trains and text != rate:
        draft.set("model.params.cond_stage_lr_multiple", float(f"{text / rate:.6g}"))


_KINDS = {"lora": "LoRA", "locon": "LoRA", "lokr": "LoKr", "dora": "DoRA"}


def _adapters(taken: Taken, draft: Draft) -> None:
    kind = kind_among(_KINDS, str(taken("network.type", "lora")).lower(), "network.type")
    rank = int(taken.number("network.linear", taken.number("network.rank", 4)))
    alpha = taken.number("network.linear_alpha", taken.number("network.alpha", 1))
    params: dict[str, Any] = {"rank": rank, "alpha": alpha, "dropout": taken.number("network.dropout")}
    if kind == "LoKr" and (factor := int(taken.number("network.lokr_factor", -1))) > 0:
        params["factor"] = factor
    second = int(taken.number("network.conv"))
    beside = {"rank": second, "alpha": taken.number("network.conv_alpha", second)} if second else None
    of_what_trained(draft, AdapterRules(kind, params, convolutions=beside)).lay(draft)


def _optimizer(taken: Taken, draft: Draft) -> None:
    name, schedule = str(taken("train.optimizer", "adamw")), str(taken("train.lr_scheduler", "constant"))
    target = OPTIMIZERS.get(name.lower(), name if "." in name else f"torch.optim.{name}")
    params = {key: taken(key) for key in taken.rest() if key.startswith("train.optimizer_params.")}
    params = {key.rpartition(".")[2]: value for key, value in params.items()}
    draft.set("model.params.optimizer_config", {"target": target, "params": params})
    schedule = known_schedule(draft, "train.lr_scheduler", schedule)
    settings: dict[str, Any] = {}
    for key in [key for key in taken.rest() if key.startswith("train.lr_scheduler_params.")]:
        given, own = taken(key), key.rpartition(".")[2]
        if own in ("warmup_steps", "num_warmup_steps"):
            settings["warm_up_steps"] = int(given)
        else:
            draft.note("none", f"{key} = {given}: `model.params.scheduler_config.params`")
    lay_schedule(draft, schedule, settings)


_SOLVERS = {"flowmatch": None, "ddpm": None, "ddim": "ddim", "euler": "euler", "dpmsolver++": "dpmpp"}


def _samples(taken: Taken, draft: Draft) -> None:
    """Prompts as the grammar of files has them; seeds count up by themselves here."""
    solver, seed = _SOLVERS.get(str(taken("sample.sampler", "ddpm"))), taken("sample.seed")
    said = {
        "negative": taken("sample.neg") or None,
        "width": taken("sample.width"),
        "height": taken("sample.height"),
        "steps": taken("sample.sample_steps"),
        "guidance": taken("sample.guidance_scale"),
        "scheduler": solver,
    }
    said = {name: value for name, value in said.items() if value is not None}
    walks, prompts = bool(taken("sample.walk_seed")), []
    for place, prompt in enumerate(taken("sample.prompts", []) or taken("sample.samples", [])):
        own = prompt if isinstance(prompt, Mapping) else {"prompt": prompt}
        first = {} if seed is None else {"seed": seed + place * walks}
        prompts.append({"prompt": own["prompt"], **first, **said})
    if prompts:
        draft.set(f"{CALLBACKS}.image_logger.params.prompts", prompts)
