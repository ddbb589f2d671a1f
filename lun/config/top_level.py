"""The sections of a configuration."""

TOP_LEVEL = ("model", "data", "lightning", "seed")

PLACES = {
    **{name: f"lightning.{name}" for name in ("trainer", "callbacks", "logger", "deepspeed")},
    **{name: f"data.params.{name}" for name in ("train", "validation")},
    **{
        name: f"model.params.{name}"
        for name in ("ema_config", "unet_config", "first_stage_config", "cond_stage_config")
    },
}
"""Sections that pages and posts show by themselves, and where each of them belongs."""
