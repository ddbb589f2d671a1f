"""kohya sd-scripts' command or training TOML: what its options come to together; the rest is in the table."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from lun.config.reading.yaml_files import read_text
from lun.migrate import kohya
from lun.migrate.draft import Draft
from lun.migrate.foreign import Taken
from lun.migrate.runs.adapter_rules import TEXT, AdapterRules
from lun.migrate.runs.base_model import model_of
from lun.migrate.runs.schedule_recipe import CONSTANT, known_schedule, lay_schedule
from lun.migrate.runs.taught_words import NEUTRAL, TaughtWord, teach
from lun.other_trainers.answers import OPTIMIZERS
from lun.other_trainers.kohya_table import KOHYA

SCRIPT = re.compile(r"(sdxl_|sd3_|flux_|lumina_|hunyuan_image_|anima_)?(train\w*|fine_tune)\.py")
_ELSEWHERE = re.compile(r"(flux|lumina|hunyuan_image|anima)_|.*(controlnet|control_net|leco|XTI)")
_MODELS = {"sdxl_": ("sdxl",), "sd3_": ("sd3-medium", "sd35-medium", "sd35-large")}
_SECOND = ("sd21-base", "sd21-v")
_TEXT_TRAINS = ("train_db.py",)
_WORDS = "textual_inversion"
"""In the names of scripts that teach a word."""


def read(options: Mapping[str, Any], script: str, beside: Path) -> Draft:
    """The configuration of a run. Raises `Fault` CFG01, CFG02 for files it names, CFG03 for models that are not here.

    options  of the command line; those of its `--config_file` lie below them
    script   which of the scripts, "" where that is not known
    beside   the folder that paths of files start from where they do not from the working directory
    """
    if _ELSEWHERE.match(script):
        raise Fault("CFG03", f"{script} trains what is not trained here", why="the models are those of --list-presets")
    if file := options.get("config_file"):
        options = {**flat(toml(found(str(file), beside))), **options}
    taken, draft = Taken(options, "command"), Draft(KOHYA)
    taken("config_file")
    _model(taken, draft, script)
    _data(taken, draft, beside)
    _rates(taken, draft, script)
    _optimizer(taken, draft)
    _schedule(taken, draft)
    _length(taken, draft)
    draft.set("model.params.use_ema", False)
    if not script:
        draft.note("none", "which script is started: text encoders are frozen, where no rate of theirs is written")
    draft.translate(taken)
    return draft


def flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a TOML file, whose sections have no meaning."""
    options: dict[str, Any] = {}
    for name, value in content.items():
        options |= flat(value) if isinstance(value, Mapping) else {name: value}
    return options


def toml(path: Path) -> dict[str, Any]:
    """A file of settings. Raises `Fault` CFG02."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise Fault("CFG02", f"{path} cannot be read", where=str(path), why=str(error)) from error


def found(name: str, beside: Path) -> Path:
    """A file that a command names. Raises `Fault` CFG01."""
    for path in (Path(name), beside / name, beside / Path(name).name):
        if path.is_file():
            return path
    raise Fault("CFG01", f"file not found: {name}", why="the command names it", fix="put it beside the command's file")


def _model(taken: Taken, draft: Draft, script: str) -> None:
    weights = taken.text("pretrained_model_name_or_path")
    second, v = taken("v2"), taken("v_parameterization")
    of_script = SCRIPT.fullmatch(script)
    models = _MODELS.get(of_script[1] or "" if of_script else "", ())
    model = model_of(weights, models) if not second else _SECOND[bool(v)]
    draft.stand_on(model)
    if v and not second:
        draft.set("model.params.parameterization", "v")
    if weights:
        draft.set("model.params.ckpt_path", weights)


def _data(taken: Taken, draft: Draft, beside: Path) -> None:
    """Sets of the dataset TOML, or the folders of the command; its other words on pictures stand below both."""
    folder, regular, listed = (taken.text(name) for name in ("train_data_dir", "reg_data_dir", "in_json"))
    repeats, batch = taken("dataset_repeats"), taken("train_batch_size", 1)
    file, prior = taken.text("dataset_config"), taken.number("prior_loss_weight", 1)
    below = {name: taken(name) for name in kohya.OF_A_SUBSET if name in taken.given}
    subsets: list[dict[str, Any]] = []
    if listed:
        subsets.append({"image_dir": folder, "metadata_file": listed, "num_repeats": repeats})
    elif folder:
        subsets.append({"image_dir": folder, "layout": "kohya"})
    if regular:
        subsets.append({"image_dir": regular, "layout": "kohya", "is_reg": True})
    content: dict[str, Any] = toml(found(file, beside)) if file else {"datasets": [{"subsets": subsets}]}
    if not file and not subsets:
        draft.note("none", "the command names no pictures: --data_root DIR")
        draft.set("data.params.batch_size", int(float(batch)))
        return
    content = {**content, "general": {"batch_size": batch, **below, **content.get("general", {})}}
    sets = kohya.read(content)
    for one in sets.sets.values():
        if one.get("kind") == "class" and prior != 1:
            one["loss_weight"] = prior
    draft.lay(sets)
    draft.settings["data"]["params"]["batch_size"] = int(float(sets.batch_size or 1))
    if "ucg_rate" not in draft.settings.get("model", {}).get("params", {}):
        draft.set("model.params.ucg_rate", 0.0)


def _rates(taken: Taken, draft: Draft, script: str) -> None:
    """The learning rate, which text encoders train and at which share of it, and adapters."""
    whole, unet = taken.number("learning_rate", 2e-6), taken.number("unet_lr", 0)
    rate = unet or whole
    text = _text_rates(taken, draft)
    draft.set("model.base_learning_rate", rate)
    if _WORDS in script or (not script and "token_string" in taken.given):
        _words(taken, draft, whole)
        return
    if module := taken.text("network_module"):
        _adapters(taken, draft, module, rate, whole if text is None else text)
        return
    switch = bool(taken("train_text_encoder"))
    stop = taken.number("stop_text_encoder_training")
    trains = switch or (script in _TEXT_TRAINS and stop >= 0) or (not script and bool(text))
    draft.set("model.params.cond_stage_trainable", trains and text != 0)
    if trains and text and text != rate:
        draft.set("model.params.cond_stage_lr_multiple", _share(text, rate))
    if trains and stop > 0:
        rules = {"text": {"match": "text_encoder*", "until": int(stop)}}
        draft.set("model.params.training_config", {"target": "ldm.training.rules.Rules", "params": {"rules": rules}})


def _words(taken: Taken, draft: Draft, rate: float) -> None:
    """The word of textual inversion. Raises `Fault` CFG03 where the command names none."""
    token, init, file = (taken.text(name) for name in ("token_string", "init_word", "weights"))
    if not token:
        what = "the command names no word to teach"
        raise Fault("CFG03", what, where="token_string", fix="--token_string WORD, as captions write it")
    if not (init or file):
        draft.note(
            "none", f"no init_word, so that vectors begin as chance has it: init: '{NEUTRAL}', or what it is like"
        )
    vectors = int(taken.number("num_vectors_per_token", 1))
    teach(draft, [TaughtWord(token, vectors, init, file)], rate)
    taken("train_text_encoder")


def _text_rates(taken: Taken, draft: Draft) -> float | None:
    """The rate of text encoders, None where it is not said; there is one for all of them here."""
    rates: list[float] = []
    for name in ("text_encoder_lr", "learning_rate_te", *(f"learning_rate_te{number}" for number in (1, 2, 3))):
        given = taken(name)
        several = given if isinstance(given, list) else [] if given is None else [given]
        rates += [float(one) for one in several]
    if len(set(rates)) > 1:
        draft.note("none", f"rates of text encoders {rates}: one for all, {rates[0]:g}")
    return rates[0] if rates else None


def _share(part: float, whole: float) -> float:
    return float(f"{part / whole:.6g}")


def _adapters(taken: Taken, draft: Draft, module: str, rate: float, text: float) -> None:
    rank, alpha = int(taken.number("network_dim", 4)), taken.number("network_alpha", 1)
    dropout = taken.number("network_dropout")
    given = pairs(taken("network_args"))
    kind = _kind(module, given, draft)
    params = {"rank": rank, "alpha": alpha, "dropout": dropout}
    if kind == "LoKr" and (factor := given.pop("factor", None)) is not None:
        params["factor"] = factor
    network = not taken("network_train_text_encoder_only")
    beside = None
    if network and (second := int(given.pop("conv_dim", 0))):
        beside = {"rank": second, "alpha": given.pop("conv_alpha", 1)}
    of_text = bool(text) and not taken("network_train_unet_only")
    share = _share(text, rate)
    AdapterRules(kind, params, (), beside, network, TEXT if of_text else (), share).lay(draft)
    for name, value in given.items():
        draft.note("none", f"network_args {name}={value}: kinds and their params are in docs/adapters.md")


_ALGORITHMS = {"lora": "LoRA", "locon": "LoRA", "loha": "LoHa", "lokr": "LoKr"}


def _kind(module: str, given: dict[str, Any], draft: Draft) -> str:
    """The class of adapters that a module makes. Raises `Fault` CFG03 for one that is not known."""
    algorithm = str(given.pop("algo", "lora")).lower() if module.startswith("lycoris") else module.rpartition(".")[2]
    algorithm = {"lora_fa": "lora", "dylora": "lora"}.get(algorithm, algorithm)
    if algorithm not in _ALGORITHMS:
        fix = "docs/adapters.md has the kinds that are known; take the option out to convert the rest"
        raise Fault("CFG03", f"there are no adapters of {module} {algorithm} here", where="network_module", fix=fix)
    if module.rpartition(".")[2] not in ("lora", "loha", "lokr", "kohya"):
        draft.note("none", f"network_module = {module}: plain LoRA")
    if given.pop("dora_wd", False) and _ALGORITHMS[algorithm] == "LoRA":
        return "DoRA"
    return _ALGORITHMS[algorithm]


def _optimizer(taken: Taken, draft: Draft) -> None:
    name = taken.text("optimizer_type")
    name = name or ("Lion" if taken("use_lion_optimizer") else "AdamW8bit" if taken("use_8bit_adam") else "AdamW")
    for switch in ("use_lion_optimizer", "use_8bit_adam"):
        taken(switch)
    params = pairs(taken("optimizer_args"))
    target = OPTIMIZERS.get(name.lower(), name if "." in name else f"torch.optim.{name}")
    comment = ""
    if name.lower() == "adafactor":
        idle = [key for key in ("relative_step", "scale_parameter", "warmup_init", "clip_threshold") if key in params]
        given = {key: params.pop(key) for key in idle}
        comment = f"Adafactor: steps by the run's own rate and schedule; not read: {given or 'its relative steps'}"
    if name.lower() == "sgdnesterov":
        params = {"momentum": 0.9, "nesterov": True, **params}
    draft.set("model.params.optimizer_config", {"target": target, "params": params}, comment)


def pairs(given: Any) -> dict[str, Any]:
    """`weight_decay=0.1 betas=0.9,0.99` as numbers, lists and texts, by name."""
    words = given if isinstance(given, list) else str(given or "").split()
    found: dict[str, Any] = {}
    for word in words:
        name, _, text = str(word).partition("=")
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        found[name.strip()] = list(value) if isinstance(value, tuple) else value
    return found


def _schedule(taken: Taken, draft: Draft) -> None:
    name = taken.text("lr_scheduler") or "constant"
    warm_up, cycles = taken.number("lr_warmup_steps"), int(taken.number("lr_scheduler_num_cycles", 1))
    steps = taken.number("max_train_steps", 1600)
    comment = ""
    if 0 < warm_up < 1:
        comment = f"lr_warmup_steps = {warm_up}: a share of {steps} steps"
        warm_up *= steps
    name = known_schedule(draft, "lr_scheduler", name)
    lay_schedule(draft, name, {"warm_up_steps": 0 if name == CONSTANT else int(warm_up)}, cycles, comment)


def _length(taken: Taken, draft: Draft) -> None:
    steps, epochs = taken("max_train_steps"), taken("max_train_epochs")
    if epochs is not None:
        draft.set("lightning.trainer", {"max_epochs": int(epochs), "max_steps": -1})
    else:
        comment = "" if steps is not None else "what there is trained without a length"
        draft.set("lightning.trainer.max_steps", int(float(steps or 1600)), comment)
        draft.set("lightning.trainer.max_epochs", None)
    if taken("full_bf16") or taken("full_fp16"):
        taken("mixed_precision")
        draft.stand_on("bf16-true")
