"""What is known of a model besides its tensors: from a run's configuration, a file's header or a pipeline's folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ldm.diffusion.prediction_names import PredictionType

NETWORK = "unet"
"""Whose settings those of the denoising network are in `Facts.configs`, whatever its folder in a pipeline is called."""
Unconditional = Literal["zeros", "empty caption"]
"""What stands for no caption, in training and in guidance: zeros, or the encoded empty caption."""


@dataclass(frozen=True)
class Facts:
    """What tensors do not show.

    prediction     what the network was trained to predict, in diffusers' words; None where there is no network
    scheduler      settings of diffusers' scheduler that differ from those of every Stable Diffusion
    configs        settings of diffusers' and transformers' networks, by their folder in a pipeline or `NETWORK`
    resolution     side of the pictures that it was trained on, in pixels
    scale_factor   of its latents
    metadata       what the file it came from, or the run that made it, says about it
    files          other files of a pipeline's folder (tokenizers), by their path in it
    exact          the tensors are all that a single file has to hold, none is to be added
    unconditional  what stood for no caption in training; None where nothing says, so that it is the family's
    """

    prediction: PredictionType | None = None
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    resolution: int | None = None
    scale_factor: float | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    exact: bool = False
    unconditional: Unconditional | None = None

    @property
    def zero_terminal_snr(self) -> bool:
        return bool(self.scheduler.get("rescale_betas_zero_snr"))
