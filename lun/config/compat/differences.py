"""What an old configuration did by itself and this program does differently, each said once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lun.config.compat.import_paths import is_old
from lun.config.compat.lightning1_trainer import OLD_ARGUMENTS
from lun.config.compat.rewriting import Config, Upgrade, at, put, without

OLD_EMA = {"target": "ldm.modules.ema.LitEma", "params": {"decay": 0.9995, "update_every": 100}}
_DIFFUSION = ("LatentDiffusion", "DDPM")


def differences(config: Config) -> Upgrade:
    """Notes on changed defaults for a configuration in old spelling, whose EMA keeps its old constants."""
    if not is_old_config(config):
        return Upgrade(config)
    config, notes = _with_old_ema(config)
    if "scale_lr" not in at(config, "model"):
        notes.append(
            "differs from translunar-diffusion: the learning rate is taken as written"
            " (--scale_lr linear multiplies it by the pictures of a step, as before)"
        )
    notes += dict.fromkeys(note for params in _metadata(config) for note in _score_notes(params))
    if _counts_batches(config):
        notes.append(
            "differs from translunar-diffusion: disc_start counts steps, each of"
            " lightning.trainer.accumulate_grad_batches batches"
        )
    return Upgrade(config, tuple(notes))


def is_old_config(config: Config) -> bool:
    """Whether anything in it is spelt as in 2022."""
    return bool(OLD_ARGUMENTS & at(config, "lightning", "trainer").keys()) or any(map(is_old, _targets(config)))


def _with_old_ema(config: Config) -> tuple[Config, list[str]]:
    params = at(config, "model", "params")
    name = str(at(config, "model").get("target", "")).rpartition(".")[2]
    given = params.get("ema_config") or params.get("ema_decay") or params.get("use_ema") is False
    if name not in _DIFFUSION or given:
        return config, []
    params = {**without(params, {"use_ema"}), "ema_config": OLD_EMA}
    note = "the EMA is that of translunar-diffusion: decay 0.9995, every 100 steps (model.params.ema_config)"
    return put(config, params, "model", "params"), [note]


def _score_notes(params: Mapping[str, Any]) -> Iterator[str]:
    for key, old in (("min_score", 50), ("abs_min_score", 25)):
        if key not in params:
            yield (
                f"differs from translunar-diffusion: without {key} no picture is rejected by its score"
                f" (it was {old}; write metadata_params.{key}: {old} to keep that)"
            )
    if "aspect_range" not in params:
        yield (
            "differs from translunar-diffusion: without aspect_range no picture is rejected by its shape"
            " (it was 0.71 to 1.42; write metadata_params.aspect_range: [0.71, 1.42] to keep that)"
        )
    else:
        yield "differs from translunar-diffusion: aspect_range is honoured (it was always 0.71 to 1.42)"


def _metadata(config: Config) -> Iterator[Mapping[str, Any]]:
    for name in ("train", "validation"):
        params = at(config, "data", "params", name, "params")
        if isinstance(params.get("metadata_params"), Mapping):
            yield params["metadata_params"]


def _counts_batches(config: Config) -> bool:
    loss = at(config, "model", "params", "lossconfig", "params")
    accumulated = at(config, "lightning", "trainer").get("accumulate_grad_batches") or 1
    return "disc_start" in loss and accumulated != 1


def _targets(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("target"), str):
            yield value["target"]
        for item in value.values():
            yield from _targets(item)
    elif isinstance(value, list):
        for item in value:
            yield from _targets(item)
