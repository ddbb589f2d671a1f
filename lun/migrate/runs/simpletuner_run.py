"""SimpleTuner's config.json: what options come to together; the rest is in the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from lun.migrate import simpletuner
from lun.migrate.draft import Draft
from lun.migrate.foreign import Taken, listed
from lun.migrate.runs.adapter_rules import AdapterRules, kind_among
from lun.migrate.runs.base_model import model_of
from lun.migrate.runs.kohya_run import pairs
from lun.migrate.runs.schedule_recipe import CONSTANT, known_schedule, lay_schedule
from lun.other_trainers.counterparts import CALLBACKS
from lun.other_trainers.simpletuner_table import SIMPLETUNER, optimizer

_SIGNS = ("model_family", "data_backend_config", "lora_type", "base_model_precision")
"""Options by which its files are known."""
_FAMILIES = {
    "sdxl": ("sdxl",),
    "sd1x": ("sd15",),
    "sd2x": ("sd21-v", "sd21-base"),
    "legacy": ("sd15", "sd21-v", "sd21-base"),
    "sd3": ("sd3-medium", "sd35-medium", "sd35-large"),
}
_PROMPT = {
    "validation_negative_prompt": "negative",
    "validation_seed": "seed",
    "validation_guidance": "guidance",
    "validation_num_inference_steps": "steps",
}


def options(content: Mapping[str, Any]) -> dict[str, Any]:
    """Its settings by name, without the dashes that a file may have."""
    return {name.lstrip("-").replace("-", "_"): value for name, value in content.items()}


def is_ours(content: Mapping[str, Any]) -> bool:
    """Whether it is a file of this program."""
    return bool(options(content).keys() & set(_SIGNS))


def read(content: Mapping[str, Any], beside: Path) -> Draft:
    """The configuration of a run. Raises `Fault` CFG01 for a file it names, CFG03 for what is not trained here."""
    taken, draft = Taken(options(content), "config"), Draft(SIMPLETUNER)
    _model(taken, draft)
    _data(taken, draft, beside)
    rate = taken.number("learning_rate", 8e-7)
    draft.set("model.base_learning_rate", rate)
    if taken("model_type", "lora") == "lora":
        _adapters(taken, draft, beside)
    _optimizer(taken, draft)
    _schedule(taken, draft, rate)
    _length(taken, draft)
    _samples(taken, draft)
    if "mixed_precision" not in taken.given:
        draft.stand_on("bf16")
    if not taken.given.get("use_ema"):
        draft.set("model.params.use_ema", False)
    draft.translate(taken)
    return draft


def _model(taken: Taken, draft: Draft) -> None:
    named, weights = str(taken("model_family", "")), taken.text("pretrained_model_name_or_path")
    if named not in _FAMILIES:
        fix = "python main.py --list-presets"
        raise Fault("CFG03", f"models of the family {named!r} are not trained here", where="model_family", fix=fix)
    draft.stand_on(model_of(f"{weights} {taken('model_flavour', '')}".strip(), _FAMILIES[named]))
    if weights:
        draft.set("model.params.ckpt_path", weights)


def _data(taken: Taken, draft: Draft, beside: Path) -> None:
    name = taken.text("data_backend_config")
    backends = listed(name, beside) if name else None
    batch, cuts = int(taken.number("train_batch_size", 1)), False
    if backends is None:
        draft.note("none", f"data_backend_config = {name} is not there: no pictures are named, --data_root DIR")
    else:
        whole = {key: taken(key) for key in _OF_A_BACKEND if taken.given.get(key) is not None}
        found = simpletuner.read([{**whole, **one} for one in backends])
        cuts = any(one["params"].get("crop") == "random" for one in found.sets.values())
        draft.lay(found)
    draft.set("data.params.batch_size", batch)
    draft.set("model.params.ucg_rate", taken.number("caption_dropout_probability"))
    if cuts:
        line = (
            "what is encoded is kept there with one random cut; here each pass cuts anew: data.params.cache.variants=4"
        )
        draft.note("none", line)
    elif not taken.given.get("vae_cache_disable"):
        draft.stand_on("latent-cache")


_OF_A_BACKEND = (
    *("resolution", "resolution_type", "crop", "crop_style", "crop_aspect", "caption_strategy"),
    *("instance_prompt", "prepend_instance_prompt", "minimum_image_size"),
)
_ALGORITHMS = {"lora": "LoRA", "locon": "LoRA", "loha": "LoHa", "lokr": "LoKr"}


def _adapters(taken: Taken, draft: Draft, beside: Path) -> None:
    rank = int(taken.number("lora_rank", 16))
    params = {"rank": rank, "alpha": taken.number("lora_alpha", rank), "dropout": taken.number("lora_dropout", 0.1)}
    kind = "DoRA" if taken("use_dora") else "LoRA"
    if taken("lora_type", "standard") == "lycoris":
        kind = _lycoris(taken, draft, beside, params)
    draft.set("model.params.cond_stage_trainable", False)
    AdapterRules(kind, params).lay(draft)


def _lycoris(taken: Taken, draft: Draft, beside: Path, params: dict[str, Any]) -> str:
    """The kind that its file of adapters names; `params` become those of the file."""
    name = taken.text("lycoris_config") or "lycoris_config.json"
    given = Taken(listed(name, beside) or {}, name)
    algorithm = str(given("algo", "lokr")).lower()
    kind = kind_among(_ALGORITHMS, algorithm, f"{name}: algo")
    rank = int(given.number("linear_dim", 10000 if algorithm == "lokr" else 16))
    params.update(rank=rank, alpha=given.number("linear_alpha", 1), dropout=given.number("dropout"))
    if algorithm == "lokr" and (factor := int(given.number("factor"))) > 0:
        params["factor"] = factor
    if given("multiplier", 1.0) == 1.0:
        given.names.add("multiplier")
    for line in given.left():
        draft.note("none", f"{line}: `match` and params of a rule, docs/adapters.md; attention blocks train")
    return kind


def _optimizer(taken: Taken, draft: Draft) -> None:
    given = str(taken("optimizer", "adamw_bf16"))
    name, _, variant = given.partition("+")
    target, params = optimizer(name), pairs(str(taken("optimizer_config", "")).replace(",", " "))
    if variant:
        draft.note("none", f"optimizer = {given}: {target} without {variant}")
    betas = [taken(f"{prefix}_beta{n}") for prefix in ("optimizer", "adam") for n in (1, 2)]
    betas = betas[:2] if betas[0] is not None else betas[2:]
    if None not in betas:
        params["betas"] = betas
    comment = ""
    if "." not in target:
        target, comment = "torch.optim.AdamW", f"optimizer = {given}: it is not known; docs/optimizers.md has others"
    draft.set("model.params.optimizer_config", {"target": target, "params": params}, comment)


def _schedule(taken: Taken, draft: Draft, rate: float) -> None:
    name, warm_up = str(taken("lr_scheduler", "sine")), int(taken.number("lr_warmup_steps", 500))
    end, cycles = taken.number("lr_end", 4e-7), int(taken.number("lr_num_cycles", 1))
    name = known_schedule(draft, "lr_scheduler", name)
    params: dict[str, Any] = {"warm_up_steps": 0 if name == CONSTANT else warm_up}
    comment = ""
    if name == "polynomial" and end and rate:
        params["minimum"] = float(f"{min(1.0, end / rate):.6g}")
        comment = f"lr_end = {end:g}: as a share of the rate"
    lay_schedule(draft, name, params, cycles, comment)


def _length(taken: Taken, draft: Draft) -> None:
    steps, epochs = int(taken.number("max_train_steps")), int(taken.number("num_train_epochs"))
    if steps > 0:
        draft.set("lightning.trainer", {"max_steps": steps, "max_epochs": None})
    elif epochs > 0:
        draft.set("lightning.trainer", {"max_epochs": epochs, "max_steps": -1})


def _samples(taken: Taken, draft: Draft) -> None:
    prompt = taken.text("validation_prompt")
    said = {here: taken(there) for there, here in _PROMPT.items() if taken.given.get(there) not in (None, "")}
    size = str(taken("validation_resolution", "")).split(",")[0]
    width, _, height = size.partition("x")
    if width.isdecimal():
        said |= {"width": int(width), "height": int(height or width)}
    if prompt:
        draft.set(f"{CALLBACKS}.image_logger.params.prompts", [{"prompt": prompt, **said}])
    elif said:
        draft.note("same", f"{said}: of each prompt, `A PROMPT --n blurry --w 512`")
