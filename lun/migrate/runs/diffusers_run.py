"""The command of diffusers' example scripts: what its options come to together; the rest is in the table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from lun.migrate.draft import Draft
from lun.migrate.foreign import Found, Taken
from lun.migrate.runs.adapter_rules import AdapterRules
from lun.migrate.runs.base_model import model_of
from lun.migrate.runs.schedule_recipe import CONSTANT, known_schedule, lay_schedule
from lun.other_trainers.answers import OPTIMIZERS
from lun.other_trainers.diffusers_table import DIFFUSERS

SCRIPT = re.compile(r"train_(text_to_image|dreambooth)(?P<lora>_lora)?(?P<model>_\w+)?\.py")
_MODELS = {"": ("", 512), "_sdxl": ("sdxl", 1024), "_sd3": ("sd3-medium", 512)}
_PROJECTIONS = ["unet.*.to_q", "unet.*.to_k", "unet.*.to_v", "unet.*.to_out.0"]
_OF_TEXT = ["text_encoder*self_attn*"]
_RATES = {(False, False): 1e-4, (False, True): 1e-4, (True, False): 5e-6, (True, True): 5e-4}


def read(options: Mapping[str, Any], script: str, beside: Path) -> Draft:
    """The configuration of a run. Raises `Fault` CFG03 for a script whose model is not here."""
    named = SCRIPT.fullmatch(script)
    kind = (named["model"] or "") if named else ""
    if kind not in _MODELS:
        raise Fault("CFG03", f"{script} trains what is not trained here", why="the models are those of --list-presets")
    taken, draft = Taken(options, "command"), Draft(DIFFUSERS)
    dreambooth, lora = "dreambooth" in script, bool(named and named["lora"])
    model, size = _MODELS[kind]
    draft.stand_on(model or model_of(taken.text("pretrained_model_name_or_path")))
    rate = taken.number("learning_rate", 1e-4 if kind else _RATES[dreambooth, lora])
    draft.set("model.base_learning_rate", rate)
    draft.set("model.params.ucg_rate", 0.0)
    _data(taken, draft, dreambooth, size)
    _what_trains(taken, draft, lora, rate)
    _optimizer(taken, draft, 1e-4 if dreambooth and lora and kind else 1e-2)
    _schedule(taken, draft)
    _length(taken, draft, 1 if dreambooth else 100)
    if not taken.given.get("use_ema"):
        draft.set("model.params.use_ema", False)
    for name in ("validation_prompt", "validation_prompts"):
        if prompts := taken(name):
            several = prompts if isinstance(prompts, list) else [prompts]
            draft.set("lightning.callbacks.image_logger.params.prompts", several)
    draft.translate(taken)
    return draft


def _data(taken: Taken, draft: Draft, dreambooth: bool, size: int) -> None:
    """One folder, or with prior preservation two of which each gives half."""
    found = Found(batch_size=int(taken.number("train_batch_size", 4 if dreambooth else 16)))
    size = int(taken.number("resolution", size))
    looks = {
        "crop": None if taken("center_crop") else "random",
        "flip_p": 0.5 if taken("random_flip") else 0.0,
        "limit_images": None if taken("max_train_samples") is None else int(taken.number("max_train_samples")),
    }
    folder, prompt = taken.text("train_data_dir") or taken.text("instance_data_dir"), taken.text("instance_prompt")
    taken("instance_data_dir")
    if not folder:
        draft.note("none", "the command names no folder of pictures: --data_root DIR")
        draft.set("data.params", {"batch_size": found.batch_size, "train": {"params": {"size": size, **_on(looks)}}})
        return
    times = taken.number("repeats", 1)
    of_class = bool(taken("with_prior_preservation"))
    often: dict[str, Any] = {"weight": 1} if of_class else {"repeats": None if times == 1 else times}
    found.add(folder, {"data_root": folder, "default_caption": prompt, **looks}, [size], True, **often)
    if prompt:
        draft.note("same", f"instance_prompt = {prompt}: for pictures without a caption of their own")
    other, of_other = taken.text("class_data_dir"), taken.text("class_prompt")
    weight = taken.number("prior_loss_weight", 1)
    if of_class:
        said = {"kind": "class", "weight": 1, "loss_weight": None if weight == 1 else weight}
        found.add(other or "class", {"data_root": other, "default_caption": of_other, **looks}, [size], True, **said)
    draft.lay(found)


def _on(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


def _what_trains(taken: Taken, draft: Draft, lora: bool, rate: float) -> None:
    text, text_rate = bool(taken("train_text_encoder")), taken.number("text_encoder_lr", rate)
    if not lora:
        draft.set("model.params.cond_stage_trainable", text)
        return
    rank, dropout = int(taken.number("rank", 4)), taken.number("lora_dropout")
    params = {"rank": rank, "alpha": rank, "dropout": dropout}
    kind, of_text = "DoRA" if taken("use_dora") else "LoRA", _OF_TEXT if text else ()
    AdapterRules(kind, params, _PROJECTIONS, text=of_text, text_rate=text_rate / rate).lay(draft)


def _optimizer(taken: Taken, draft: Draft, decay: float) -> None:
    name = taken.text("optimizer").lower() or "adamw"
    name = "adamw8bit" if taken("use_8bit_adam") and name == "adamw" else name
    params = {
        "betas": [taken.number("adam_beta1", 0.9), taken.number("adam_beta2", 0.999)],
        "weight_decay": taken.number("adam_weight_decay", decay),
        "eps": taken.number("adam_epsilon", 1e-8),
    }
    target = OPTIMIZERS.get(name, f"torch.optim.{name}")
    draft.set("model.params.optimizer_config", {"target": target, "params": params})


def _schedule(taken: Taken, draft: Draft) -> None:
    name = taken.text("lr_scheduler") or "constant"
    warm_up, cycles = int(taken.number("lr_warmup_steps", 500)), int(taken.number("lr_num_cycles", 1))
    name = known_schedule(draft, "lr_scheduler", name)
    lay_schedule(draft, name, {"warm_up_steps": 0 if name == CONSTANT else warm_up}, cycles)


def _length(taken: Taken, draft: Draft, otherwise: int) -> None:
    steps, epochs = taken("max_train_steps"), int(taken.number("num_train_epochs", otherwise))
    trainer = {"max_epochs": epochs} if steps is None else {"max_steps": int(steps), "max_epochs": None}
    draft.set("lightning.trainer", trainer)
