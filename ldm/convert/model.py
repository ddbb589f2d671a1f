"""A Stable Diffusion model on its way from one layout to another, and what is known of it besides its tensors."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from ldm.families.infer_config import BASES, Kind, first_stage_of, parts_in, unet_of
from ldm.families.recognise import Unconditional
from ldm.families.text_encoders import ENCODERS, Encoder
from ldm.files.state import State
from ldm.files.write import Types
from ldm.keys.parts import COND_STAGE, CONDITIONER, FIRST_STAGE, UNET

PredictionType = Literal["epsilon", "v_prediction", "sample", "flow_prediction"]
NETWORKS = (UNET, FIRST_STAGE, COND_STAGE, CONDITIONER)
V_MARKER, ZERO_SNR_MARKER = "v_pred", "ztsnr"  # empty tensors by which readers of XL files know


@dataclass(frozen=True)
class Facts:
    """What tensors do not tell.

    prediction     what the network was trained to predict, in diffusers' words; None where there is no UNet
    scheduler      settings of diffusers' scheduler that differ from those of every Stable Diffusion
    configs        settings of diffusers' and transformers' networks, by their folder in a pipeline
    resolution     side of the pictures that it was trained on, in pixels
    scale_factor   of its latents
    metadata       what the file it came from, or the run that made it, says about it
    files          other files of a pipeline's folder (tokenizers), by their path in it
    exact          the tensors are all that a single file has to hold, none is to be added
    unconditional  what stood for no caption in training; None where nothing tells, so that it is the family's
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


@dataclass(frozen=True)
class Model:
    """Named tensors as CompVis has them (whole names, no average beside them) and what is known of them.

    family   None for an autoencoder alone
    source   the path that a person gave
    """

    state: State
    family: Kind | None
    source: str
    facts: Facts = field(default_factory=Facts)

    @property
    def unconditional(self) -> Unconditional | None:
        """What stands for no caption; None for an autoencoder alone."""
        return self.facts.unconditional or (BASES[self.family].unconditional if self.family else None)

    @property
    def parts(self) -> Mapping[str, int]:
        return parts_in(self.state)

    @property
    def unet(self) -> State:
        return unet_of(self.state)

    @property
    def first_stage(self) -> State:
        return first_stage_of(self.state)

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """The text encoders of its family that it holds."""
        known = ENCODERS[self.family] if self.family else ()
        return tuple(encoder for encoder in known if any(key.startswith(encoder.prefix) for key in self.state))

    @property
    def foreign_text_encoder(self) -> tuple[str, ...]:
        """The tensors of a text encoder that is not its family's, for which other programs have no place."""
        prefixes = tuple(encoder.prefix for encoder in self.encoders)
        text = [key for key in self.state if key.startswith((COND_STAGE, CONDITIONER))]
        return tuple(key for key in text if not key.startswith(prefixes))

    def part(self, prefix: str) -> "Model":
        """This model with the tensors of one part alone."""
        kept = {key: value for key, value in self.state.items() if key.startswith(prefix)}
        return replace(self, state=kept)

    def with_part(self, prefix: str, other: State) -> "Model":
        """This model with the tensors below `prefix` replaced by those of `other`, a state with the same names."""
        kept = {key: value for key, value in self.state.items() if not key.startswith(prefix)}
        return replace(self, state=kept | {key: value for key, value in other.items() if key.startswith(prefix)})

    def completed(self) -> "Model":
        """This model with what single files hold although it follows from other tensors or nothing reads it.

        Also the marks by which readers of XL files know v-prediction and zero terminal signal.
        """
        if self.facts.exact:
            return self
        absent: State = {}
        for encoder in self.encoders:
            absent |= encoder.absent(self.state)
        if self.family == "sdxl" and self.facts.prediction == "v_prediction":
            absent[V_MARKER] = torch.zeros(0)
        if self.family == "sdxl" and self.facts.zero_terminal_snr:
            absent[ZERO_SNR_MARKER] = torch.zeros(0)
        state = self.state | {key: value for key, value in absent.items() if key not in self.state}
        return replace(self, state=state, facts=replace(self.facts, exact=True))

    def types(self, dtype: torch.dtype | None) -> Types:
        """The types to store tensors under: `dtype` for the networks' numbers, their own for counters and tables."""
        if dtype is None:
            return {}
        weights = {key: value for key, value in self.state.items() if key.startswith(NETWORKS)}
        return {key: dtype for key, value in weights.items() if value.is_floating_point()}
