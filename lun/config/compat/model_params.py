"""Model parameters that mean nothing today, or ask for something that does not exist here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lun.config.compat.rewriting import Config, RefusedSetting, Upgrade, at, listed, put, without

MODELS = ("LatentDiffusion", "DDPM")
AUTOENCODERS = ("AutoencoderKL",)


@dataclass(frozen=True)
class IdleParameter:
    """A parameter without effect: at one of `harmless` it is dropped, at any other value refused for `why`.

    No `why` means that no value had an effect on training.
    """

    harmless: tuple[Any, ...] = ()
    why: str = ""


_LOGVAR = "there is no learned or fixed log-variance for each timestep here"
_LOSS_TERMS = "the loss has one term; objective.params.weighting weights it by timestep"

IDLE: Mapping[str, IdleParameter] = {
    "num_timesteps_cond": IdleParameter((None, 1), "conditioning has no noise schedule of its own here"),
    "clip_denoised": IdleParameter(),
    "first_stage_trainable": IdleParameter(
        (None, False), "beside a UNet the first stage stays as it is; configs/training-encoder.yaml trains it alone"
    ),
    "v_posterior": IdleParameter(),
    "use_positional_encodings": IdleParameter(
        (None, False), "it appends coordinates of patches, which no model here takes"
    ),
    "learn_logvar": IdleParameter((None, False), _LOGVAR),
    "logvar_init": IdleParameter((None, 0), _LOGVAR),
    "original_elbo_weight": IdleParameter((None, 0), _LOSS_TERMS),
    "l_simple_weight": IdleParameter((None, 1), _LOSS_TERMS),
    "embedding_reg_weight": IdleParameter(),
    "cond_stage_forward": IdleParameter((None,), "the text encoder is called as it is"),
    "given_betas": IdleParameter(
        (None,), "the noise schedule is computed from beta_schedule, linear_start and linear_end"
    ),
    "conditioning_key": IdleParameter((None, "crossattn"), "captions reach the network by cross-attention alone"),
    "concat_mode": IdleParameter(),
    "personalization_config": IdleParameter((None,), "textual inversion is not available"),
    "unfreeze_model": IdleParameter((None, False), "textual inversion is not available"),
    "model_lr": IdleParameter((None, 0), "textual inversion is not available"),
}
IDLE_IN_AUTOENCODERS: Mapping[str, IdleParameter] = {
    "colorize_nlabels": IdleParameter((None,), "label maps are not supported, only pictures"),
}


def model(config: Config) -> Upgrade:
    """`model.params` without parameters that have no effect, refusing those that would have had one."""
    name = str(at(config, "model").get("target", "")).rpartition(".")[2]
    if name in MODELS:
        idle = IDLE
    elif name in AUTOENCODERS:
        idle = IDLE_IN_AUTOENCODERS
    else:
        return Upgrade(config)
    params = at(config, "model", "params")
    idle_given = {key: idle[key] for key in params if key in idle}
    if not idle_given:
        return Upgrade(config)
    refused = {key: entry for key, entry in idle_given.items() if _is_refused(params[key], entry)}
    ignored = [key for key in idle_given if key not in refused]
    return Upgrade(
        put(config, without(params, set(idle_given)), "model", "params"),
        (f"model.params: without effect here, ignored: {listed(ignored)}",) if ignored else (),
        tuple(_refusal(key, params[key], entry) for key, entry in refused.items()),
    )


def _is_refused(value: Any, entry: IdleParameter) -> bool:
    return bool(entry.why) and not any(value is harmless or value == harmless for harmless in entry.harmless)


def _refusal(key: str, value: Any, entry: IdleParameter) -> RefusedSetting:
    return RefusedSetting(
        ("model", "params", key),
        f"model.params.{key} is not available (it is {value!r})",
        why=entry.why,
        fix="delete the line",
    )
