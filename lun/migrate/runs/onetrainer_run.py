"""OneTrainer's presets and configurations: what settings come to together; the rest is in the table.

A preset says only what differs from the program's defaults, so that these are given where they mean something here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from lun.migrate import onetrainer
from lun.migrate.draft import Draft
from lun.migrate.foreign import Found, Taken, joined, listed
from lun.migrate.runs.adapter_rules import AdapterRules, kind_among, of_what_trained
from lun.migrate.runs.onetrainer_optimizer import set_optimizer
from lun.migrate.runs.onetrainer_output import draw_samples, save
from lun.migrate.runs.onetrainer_words import teach_words
from lun.migrate.runs.schedule_recipe import CONSTANT, known_schedule, lay_schedule
from lun.other_trainers.counterparts import TRAIN
from lun.other_trainers.onetrainer_table import ONETRAINER

SIGNS = ("training_method", "model_type", "base_model_name")
"""Settings by which its files are known."""
_MODELS = {
    "STABLE_DIFFUSION_15": "sd15",
    "STABLE_DIFFUSION_15_INPAINTING": "sd15-inpainting",
    "STABLE_DIFFUSION_20": "sd21-v",
    "STABLE_DIFFUSION_20_BASE": "sd21-base",
    "STABLE_DIFFUSION_21": "sd21-v",
    "STABLE_DIFFUSION_21_BASE": "sd21-base",
    "STABLE_DIFFUSION_3": "sd3-medium",
    "STABLE_DIFFUSION_35": "sd35-large",
    "STABLE_DIFFUSION_XL_10_BASE": "sdxl",
    "STABLE_DIFFUSION_XL_10_BASE_INPAINTING": "sdxl-inpainting",
}
_OTHER_PARTS = (
    *("prior", "effnet_encoder", "decoder", "decoder_text_encoder", "decoder_vqgan", "quantization"),
    *("unconditional_transformer", "text_encoder_4"),
)
_FORM = ("optimizer_defaults", "secrets", "cloud")
_ENCODERS = ("text_encoder", "text_encoder_2", "text_encoder_3")


def read(content: Mapping[str, Any], beside: Path) -> Draft:
    """The configuration of a run. Raises `Fault` CFG01 for a file it names, CFG03 for what is not trained here."""
    kept = {name: value for name, value in content.items() if name not in (*_FORM, "concepts", "samples")}
    taken, draft = Taken(joined(kept), "preset"), Draft(ONETRAINER)
    part = _model(taken, draft)
    epochs = taken.number("epochs", 100)
    method = str(taken("training_method", "FINE_TUNE"))
    _rates(taken, draft, part, epochs)
    if method == "LORA":
        _adapters(taken, draft)
    elif method == "EMBEDDING":
        teach_words(taken, draft)
    elif method != "FINE_TUNE":
        fix = "configs/README.md has how a first stage trains"
        raise Fault("CFG03", f"{method} is not read", where="training_method", fix=fix)
    _steps(taken, draft, epochs)
    set_optimizer(taken, draft)
    _averages(taken, draft)
    _data(taken, draft, content.get("concepts"), beside)
    _objective(taken, draft)
    draw_samples(taken, draft, content.get("samples"), beside)
    save(taken, draft)
    _without_effect(taken, draft, method, content)
    draft.translate(taken)
    return draft


def _model(taken: Taken, draft: Draft) -> str:
    """The name there of the network that trains."""
    model = str(taken("model_type", "STABLE_DIFFUSION_15"))
    if model not in _MODELS:
        raise Fault("CFG03", f"{model} is not trained here", where="model_type", fix="python main.py --list-presets")
    draft.stand_on(_MODELS[model])
    if weights := taken.text("base_model_name"):
        draft.set("model.params.ckpt_path", weights)
    return "transformer" if model.startswith("STABLE_DIFFUSION_3") else "unet"


def _rates(taken: Taken, draft: Draft, part: str, epochs: float) -> None:
    """The rate of the network, the share of text encoders, and how long each trains."""
    whole = taken.number("learning_rate", 3e-6)
    rate = taken.number(f"{part}.learning_rate", 0) or whole
    trains = [bool(taken(f"{encoder}.train", encoder == "text_encoder")) for encoder in _ENCODERS]
    if len(set(trains[: _count(str(taken("model_type", "")))])) > 1:
        draft.note("none", "one text encoder trains and another does not: rules over names, docs/optimizers.md")
    draft.set("model.params.cond_stage_trainable", trains[0])
    own, *_ = [taken.number(f"{encoder}.learning_rate", 0) or whole for encoder in _ENCODERS]
    if trains[0] and own != rate:
        draft.set("model.params.cond_stage_lr_multiple", float(f"{own / rate:.6g}"))
    rules: dict[str, Any] = {}
    if not taken(f"{part}.train", True):
        rules["network"] = {"match": "unet.*", "train": False}
    for name, given, usual in ((part, "unet*", 0), ("text_encoder", "text_encoder*", 30)):
        last, unit = _ends(taken, name, usual)
        if unit == "EPOCH" and 0 < last < epochs and (name == part or trains[0]):
            rules[name] = {"match": given, "until": f"{100 * last / epochs:.4g}%"}
        elif unit in ("STEP", "SECOND", "MINUTE", "HOUR") and last:
            draft.note("same", f"{name}.stop_training_after = {last} {unit}: `until` of a rule, docs/optimizers.md")
    if rules:
        draft.set("model.params.training_config", {"target": "ldm.training.rules.Rules", "params": {"rules": rules}})
    scale = _scale(taken)
    if scale != 1:
        draft.set("model.base_learning_rate", rate * scale, f"learning_rate_scaler: {rate:g} x {scale:.4g}")
    else:
        draft.set("model.base_learning_rate", rate)


def _count(model: str) -> int:
    """Text encoders of a model, by its name there."""
    return 2 if "_XL_" in model else 3 if model.startswith("STABLE_DIFFUSION_3") else 1


def _ends(taken: Taken, name: str, usual: float) -> tuple[float, str]:
    for encoder in _ENCODERS[1:]:  # which follow the first here
        taken(f"{encoder}.stop_training_after"), taken(f"{encoder}.stop_training_after_unit")
    otherwise = "EPOCH" if usual else "NEVER"
    last = taken.number(f"{name}.stop_training_after", usual)
    return last, str(taken(f"{name}.stop_training_after_unit", otherwise))


def _scale(taken: Taken) -> float:
    """The root of the pictures by which it multiplies rates."""
    scaler = str(taken("learning_rate_scaler", "NONE"))
    batch, windows = taken.given.get("batch_size") or 1, taken.given.get("gradient_accumulation_steps") or 1
    by_batch = batch if "BATCH" in scaler or "BOTH" in scaler else 1
    return float((by_batch * (windows if "ACCUMULATION" in scaler or "BOTH" in scaler else 1)) ** 0.5)


_FILTERS = {
    "full": ["unet.*"],
    "attn-mlp": ["unet.*attentions.*", "unet.*.attn*.*"],
    "attn-only": ["unet.*.attn*.*"],
}


def _adapters(taken: Taken, draft: Draft) -> None:
    named = str(taken("peft_type", "LORA"))
    kinds = {"LORA": "DoRA" if taken("lora_decompose") else "LoRA", "LOHA": "LoHa", "LOKR": "LoKr"}
    kind = kind_among(kinds, named, "peft_type")
    rank = taken.number("lora_rank", 16) if kind != "LoKr" else taken.number("lokr_dim", 16)
    params = {"rank": int(rank), "alpha": taken.number("lora_alpha", 1), "dropout": taken.number("dropout_probability")}
    factor = int(taken.number("lokr_decompose_factor", -1))
    if kind == "LoKr" and factor > 0:
        params["factor"] = factor
    layers, regular = taken.text("layer_filter_preset") or "full", taken("layer_filter_regex")
    own = taken.text("layer_filter")
    if layers not in _FILTERS or regular:
        draft.note("none", f"layer_filter = {own} ({layers}): `match` of a rule; attention blocks train")
    match = _FILTERS.get(layers, _FILTERS["attn-mlp"])
    of_what_trained(draft, AdapterRules(kind, params, match)).lay(draft)


def _steps(taken: Taken, draft: Draft, epochs: float) -> None:
    draft.set("lightning.trainer", {"max_epochs": int(epochs), "max_steps": -1})
    draft.set("data.params.batch_size", int(taken.number("batch_size", 1)))
    draft.set("model.params.ucg_rate", 0.0)
    if "train_dtype" not in taken.given:
        draft.apply(ONETRAINER.rows["train_dtype"], "FLOAT_16", "train_dtype")
    clip = taken.given.get("clip_grad_norm", 1.0)
    taken("clip_grad_norm")
    if clip:
        draft.set("lightning.trainer.gradient_clip_val", clip)
    name = str(taken("learning_rate_scheduler", "CONSTANT")).lower().replace("hard_", "")
    warm_up, cycles = taken.number("learning_rate_warmup_steps", 200), int(taken.number("learning_rate_cycles", 1))
    least = taken.number("learning_rate_min_factor")
    name = known_schedule(draft, "learning_rate_scheduler", name)
    if 0 < warm_up < 1:
        draft.note("same", f"learning_rate_warmup_steps = {warm_up}: a share; `warm_up_steps` is a number of steps")
        warm_up = 0
    params: dict[str, Any] = {"warm_up_steps": int(warm_up)}
    if least and name not in (CONSTANT, "rex"):
        params["minimum"] = least
    lay_schedule(draft, name, params, cycles)


def _averages(taken: Taken, draft: Draft) -> None:
    mode, decay = str(taken("ema", "OFF")), taken.number("ema_decay", 0.999)
    interval = int(taken.number("ema_update_step_interval", 5))
    draft.set("model.params.use_ema", mode != "OFF")
    if mode == "OFF":
        return
    params: dict[str, Any] = {"decay": float(f"{decay ** (1 / interval):.8g}"), "update_every": interval}
    if mode == "GPU":
        params["device"] = "cuda"
    recipe = {"target": "ldm.modules.ema.LitEma", "params": params}
    comment = f"ema_decay: {decay} there at each update, every {interval} steps; the decay of one step here"
    draft.set("model.params.ema_config", recipe, comment)


def _data(taken: Taken, draft: Draft, concepts: Any, beside: Path) -> None:
    name = taken.text("concept_file_name") or "training_concepts/concepts.json"
    if concepts is None:
        concepts = listed(name, beside)
    sides = [int(side.split("x")[0]) for side in str(taken("resolution", "512")).split(",") if side.strip()]
    buckets, batch = bool(taken("aspect_ratio_bucketing", True)), draft.settings["data"]["params"]["batch_size"]
    if concepts:
        found: Found = onetrainer.read(concepts)
        _at_sizes(found, sides, buckets)
        draft.lay(found)
        draft.settings["data"]["params"]["batch_size"] = batch
    else:
        draft.note("none", f"concepts: {name} is not there, so that no pictures are named: --data_root DIR")
        if buckets:
            draft.stand_on("buckets")
            draft.set("data.params.buckets.resolutions", sides)
        else:
            draft.set(f"{TRAIN}.size", sides[0])
    if taken("latent_caching", taken("image_caching", True)):
        draft.stand_on("latent-cache")
    taken("text_caching")
    if taken("masked_training"):
        comment = "masks NAME-masklabel.png become mask/NAME.png beside the pictures; nothing is learned outside"
        draft.set(f"{TRAIN}.mask", "folder", f"masked_training: {comment}")
        if not taken("normalize_masked_area_loss"):
            whole = {"params": {"mean": {"target": "ldm.diffusion.loss.WholeMean"}}}
            comment = "normalize_masked_area_loss is off: the mean over all pixels, as there"
            draft.set("model.params.objective", {"target": "ldm.diffusion.objective.Objective", **whole}, comment)


def _at_sizes(found: Found, sides: Sequence[int], buckets: bool) -> None:
    """The run's sizes for the sets that have none of their own."""
    for name, own in found.resolutions.items():
        found.resolutions[name] = own or sorted(sides)
    if not buckets:
        found.buckets.clear()


def _objective(taken: Taken, draft: Draft) -> None:
    recipe: dict[str, Any] = {}
    squared, absolute, huber = (taken.number(name, first) for name, first in _LOSSES)
    delta = taken.number("huber_delta", 1)
    if absolute and not squared and not huber:
        draft.set("model.params.loss_type", "l1")
    elif huber and not squared and not absolute:
        recipe["loss"] = {"target": "ldm.diffusion.loss.Huber", "params": {"delta": delta}}
    elif absolute or huber:
        draft.note("none", f"mse {squared}, mae {absolute}, huber {huber}: one loss; the square of the error")
    least, most = taken.number("min_noising_strength"), taken.number("max_noising_strength", 1)
    if (least, most) != (0, 1):
        span = {"low": round(least * 1000), "high": round(most * 1000)}
        recipe["timesteps"] = {"target": "ldm.diffusion.timesteps.Range", "params": span}
    weighting, strength = str(taken("loss_weight_fn", "CONSTANT")), taken.number("loss_weight_strength", 5)
    taken.names.discard("loss_weight_fn")
    if weighting == "MIN_SNR_GAMMA":
        draft.stand_on("min-snr")
        draft.set("model.params.objective.params.weighting.params.gamma", strength)
        taken("loss_weight_fn")
    if taken("timestep_shift") == 1:
        draft.note("idle", "timestep_shift = 1: nothing is shifted")
    else:
        taken.names.discard("timestep_shift")
    if recipe:
        draft.set("model.params.objective", {"target": "ldm.diffusion.objective.Objective", "params": recipe})


_LOSSES = (("mse_strength", 1.0), ("mae_strength", 0.0), ("huber_strength", 0.0))


_SWITCHES = {
    "masked_training": ("unmasked_probability", "unmasked_weight", "normalize_masked_area_loss"),
    "multi_gpu": ("device_indexes", "gradient_reduce", "fused_gradient_reduce", "async_gradient_reduce"),
    "validation": ("validate_after",),
}
_OF_ADAPTERS = ("lora_", "lokr_", "oft_", "dora_oft", "peft_type", "dropout_probability", "bundle_", "layer_filter")
_OF_WORDS = ("embedding", "preserve_embedding_norm", "additional_embeddings", "train_embedding")


def _without_effect(taken: Taken, draft: Draft, method: str, content: Mapping[str, Any]) -> None:
    """What has no effect there either, beside the settings that are made, is said in one line."""
    silent: list[str] = [part for part in _OTHER_PARTS if part in content]
    silent += [name for name in _FORM if name in content and not (name == "cloud" and content[name].get("enabled"))]
    kind = str(content.get("peft_type", "LORA")).lower()
    for name in taken.rest():
        part = name.partition(".")[0]
        of_adapters = name.startswith(_OF_ADAPTERS) and (method != "LORA" or not name.startswith((kind, "layer")))
        of_off = any(not content.get(switch) and name.startswith(those) for switch, those in _SWITCHES.items())
        absent = name == "loss_weight_strength" or (part == "transformer" and "unet" in content)
        words = name.startswith(_OF_WORDS) or name.endswith((".train_embedding", ".include", ".attention_mask"))
        if (
            part in _OTHER_PARTS
            or of_adapters
            or of_off
            or absent
            or (words and not content.get("additional_embeddings"))
        ):
            taken(name)
            silent.append(part if part in _OTHER_PARTS else name)
    if silent:
        names = ", ".join(dict.fromkeys(silent))
        draft.note("idle", f"of other models, methods and switches that are off: {names}")
    if (content.get("cloud") or {}).get("enabled"):
        draft.note("none", "cloud: the program starts where it is; clusters have files of their own")
