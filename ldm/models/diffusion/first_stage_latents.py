"""Whose latents a first stage makes, where names and shapes of its tensors do not show it: by what its folder says."""

import logging
import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ldm.errors import Fault
from ldm.families.registry import latent_of
from ldm.files.weights_location import ComponentFiles
from ldm.keys.split_checkpoint import FIRST_STAGE, part_of

log = logging.getLogger(__name__)
CONV_IN = "decoder.conv_in.weight"


def require_same_latents(source: ComponentFiles, given: str, scale: Tensor, shift: Tensor, apart: bool) -> None:
    """Compare how the folder of an autoencoder and the model scale its latents, where another family's is built alike.

    given  the file or folder as a person gave it
    scale, shift  of the model's latents: () or (channels, 1, 1); numbers of each channel are not compared
    apart  it does not come with the network, so that nothing but its `config.json` says whose it is

    Raises `Fault` MOD03 for other latents; what a lone file does not say is a warning.
    """
    alike = latent_of(None, _channels(source)).alike
    if not alike or scale.ndim or bool(scale.isnan()):
        return
    stored = source.config
    if "scaling_factor" not in stored:
        if apart:
            log.warning(
                "an autoencoder of %s has the same names and shapes: whether %s is one is unknown", alike, given
            )
            log.warning("  fix:   name a folder, whose config.json says by what its latents are scaled")
        return
    theirs = float(stored["scaling_factor"]), float(stored.get("shift_factor") or 0.0)
    ours = scale.item(), shift.item()
    if all(math.isclose(*pair, rel_tol=1e-3, abs_tol=1e-6) for pair in zip(theirs, ours, strict=True)):
        return
    raise Fault(
        "MOD03",
        f"the autoencoder of {given} makes other latents than those that this model is trained on",
        where="model.params.first_stage_config.params.ckpt_path" if apart else "model.params.ckpt_path",
        why=f"its config.json says: {_in_words(*theirs)}; the config: {_in_words(*ours)}"
        f" (an autoencoder of {alike} has the same names and shapes)",
        fix="name that of the model's family, or where the network was trained on these latents set"
        " model.params.scale_factor and model.params.shift_factor as its config.json has them",
    )


def _channels(source: ComponentFiles) -> int | None:
    if (channels := source.config.get("latent_channels")) is not None:
        return int(channels)
    first: Mapping[str, Any] = part_of(source.outline(), FIRST_STAGE)
    return int(first[CONV_IN].shape[1]) if CONV_IN in first else None


def _in_words(scale: float, shift: float) -> str:
    return f"scale {scale:g}, shift {shift:g}"
