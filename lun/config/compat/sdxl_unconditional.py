"""SDXL's conditioning without a caption: stored by every run, so that one that goes on keeps what it learned."""

from collections.abc import Mapping
from typing import Any

from lun.config.compat.rewriting import Config, Upgrade, at, put, without

TARGET = "ldm.modules.encoders.sdxl.SDXLConditioner"
PATH = ("model", "params", "cond_stage_config")
NAME, NEW, BEFORE = "unconditional", "zeros", "empty caption"
SIZE = "size"


def conditioning(config: Config) -> Upgrade:
    """XL's text side without the size that all pictures were once said to have: each has its own."""
    params = at(config, *PATH, "params")
    if not _is_xl(config) or SIZE not in params:
        return Upgrade(config)
    note = f"{'.'.join(PATH)}.params.{SIZE} is ignored: every picture has its own size and crop"
    return Upgrade(put(config, without(params, {SIZE}), *PATH, "params"), (note,))


def keep_unconditional(config: Config, stored: Mapping[str, Any] | None) -> Upgrade:
    """`config` with its `unconditional` written out: as it says, else as the run that goes on has it, else zeros.

    stored  the configuration of that run; one that does not say it is from before there was a choice, when the empty
            caption was encoded
    """
    params = at(config, *PATH, "params")
    if not _is_xl(config) or NAME in params:
        return Upgrade(config)
    value = NEW if stored is None else at(stored, *PATH, "params").get(NAME, BEFORE)
    note = (
        f"{'.'.join(PATH)}.params.{NAME}: this run was trained with the encoded {BEFORE}, and goes on so;"
        f" new runs of XL take {NEW}"
    )
    added = stored is not None and NAME not in at(stored, *PATH, "params")
    return Upgrade(put(config, {**params, NAME: value}, *PATH, "params"), (note,) if added else ())


def _is_xl(config: Mapping[str, Any]) -> bool:
    return at(config, *PATH).get("target") == TARGET
