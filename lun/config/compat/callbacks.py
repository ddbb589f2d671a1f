"""Old savers and image loggers in the spelling of `lun.callbacks`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ldm.errors import Fault
from lun.config.compat.rewriting import Config, Upgrade, at, listed, put, without

SAVERS = frozenset(
    f"{package}.callbacks.{module}ModelCheckpoint"
    for package in ("pytorch_lightning", "lightning.pytorch")
    for module in ("", "model_checkpoint.")
)
SAVER = "lun.callbacks.Checkpoint"
UNNAMED_SAVER = "monitored_checkpoint"
FILENAME = "e={epoch:04d} gs={step:06d}"
IMAGE_LOGGERS = ("main.ImageLogger", "lun.callbacks.ImageLogger")

_SAVER_DROPPED = {
    "auto_insert_metric_name",
    "save_last",
    "save_on_train_epoch_end",
    "every_n_epochs",
    "verbose",
    "save_weights_only",
    "save_on_exception",
    "enable_version_counter",
    "train_time_interval",
}
_IMAGE_LOGGER_DROPPED = {"increase_log_steps", "log_first_step", "check_custom_step", "log_on_batch_idx"}


def callbacks(config: Config) -> Upgrade:
    """ModelCheckpoint becomes our Checkpoint, old keys of the image logger go, slashes after metric names go."""
    notes: list[str] = []
    config = _with_section_of_modelcheckpoint(config)
    given = at(config, "lightning", "callbacks")
    kept: Config = {}
    for name, recipe in given.items():
        translated = _translated(name, recipe, notes)
        if recipe is None or translated is not None:
            kept[name] = translated
    if given:
        config = put(config, kept, "lightning", "callbacks")
    config = _with_bare_monitor(config, notes)
    return Upgrade(config, tuple(notes))


def _translated(name: str, recipe: Any, notes: list[str]) -> Any:
    if not isinstance(recipe, Mapping) or not isinstance(recipe.get("params") or {}, Mapping):
        return recipe
    target = recipe.get("target")
    if target is None and name == UNNAMED_SAVER:
        notes.append(f"lightning.callbacks.{name} has no target and is read as {SAVER}")
    elif not isinstance(target, str):
        return recipe
    elif target in IMAGE_LOGGERS:
        return _image_logger(name, recipe, notes)
    elif target == SAVER:
        return _without_slash(name, recipe, notes)
    elif target not in SAVERS:
        return recipe
    return _saver(name, dict(recipe.get("params") or {}), notes)


def _saver(name: str, params: Config, notes: list[str]) -> Config | None:
    """The recipe of a saver, or None where nothing would make it save."""
    minutes = _minutes(params.get("train_time_interval"))
    dropped = _SAVER_DROPPED & params.keys()
    params = without(params, _SAVER_DROPPED)
    if minutes is not None:
        params["every_minutes"] = minutes
        dropped -= {"train_time_interval"}
    monitor = params.get("monitor")
    if isinstance(monitor, str) and monitor.endswith("/"):
        params["monitor"] = monitor.rstrip("/")
        notes.append(f"lightning.callbacks.{name}.params.monitor: {monitor} is read as {params['monitor']}")
    if not any(params.get(key) for key in ("every_n_train_steps", "every_minutes", "monitor")):
        notes.append(
            f"lightning.callbacks.{name} is left out: savers count steps or minutes here, not epochs"
            " (to keep it, set every_n_train_steps)"
        )
        return None
    params = {key: value for key, value in params.items() if value is not None}
    params.setdefault("filename", FILENAME)
    without_effect = f", without {listed(list(dropped))}" if dropped else ""
    notes.append(f"lightning.callbacks.{name}: {SAVER} saves in place of ModelCheckpoint{without_effect}")
    return {"target": SAVER, "params": params}


def _without_slash(name: str, recipe: Mapping[str, Any], notes: list[str]) -> Config:
    """A saver of ours whose old settings end the metric's name with a slash."""
    params = dict(recipe.get("params") or {})
    monitor = params.get("monitor")
    if not (isinstance(monitor, str) and monitor.endswith("/")):
        return dict(recipe)
    bare = monitor.rstrip("/")
    notes.append(f"lightning.callbacks.{name}.params.monitor: {monitor} is read as {bare}")
    filename = str(params.get("filename", FILENAME)).replace("{" + monitor, "{" + bare)
    return {**recipe, "params": {**params, "monitor": bare, "filename": filename}}


def _minutes(interval: Any) -> float | None:
    """A `train_time_interval`, which a YAML gives as the keywords of a timedelta.

    Raises `Fault` CFG03 for what are none.
    """
    if not isinstance(interval, Mapping):
        return None
    keywords = interval.get("params") or {} if "target" in interval else interval
    try:
        return timedelta(**keywords).total_seconds() / 60
    except (TypeError, OverflowError) as error:
        what = f"train_time_interval: expected how long in minutes, hours or days, got {keywords!r:.60}"
        raise Fault("CFG03", what, why=str(error), fix="train_time_interval: {minutes: 30}") from error


def _image_logger(name: str, recipe: Mapping[str, Any], notes: list[str]) -> Config:
    params = dict(recipe.get("params") or {})
    if dropped := _IMAGE_LOGGER_DROPPED & params.keys():
        notes.append(f"lightning.callbacks.{name}: without effect here, ignored: {listed(list(dropped))}")
    return {**recipe, "params": without(params, _IMAGE_LOGGER_DROPPED)}


def _with_section_of_modelcheckpoint(config: Config) -> Config:
    """`lightning.modelcheckpoint`, where CompVis wrote its one saver, as a callback with a name."""
    section = at(config, "lightning")
    if "modelcheckpoint" not in section:
        return config
    recipe = {"target": "lightning.pytorch.callbacks.ModelCheckpoint", **at(section, "modelcheckpoint")}
    named = {UNNAMED_SAVER: recipe, **at(section, "callbacks")}
    return put(config, {**without(section, {"modelcheckpoint"}), "callbacks": named}, "lightning")


def _with_bare_monitor(config: Config, notes: list[str]) -> Config:
    monitor = at(config, "model", "params").get("monitor")
    if not (isinstance(monitor, str) and monitor.endswith("/")):
        return config
    notes.append(f"model.params.monitor: {monitor} is read as {monitor.rstrip('/')}")
    return put(config, monitor.rstrip("/"), "model", "params", "monitor")
