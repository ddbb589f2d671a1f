"""A Stable Diffusion model on its way from one layout to another, and what is known of it besides its tensors."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch

from ldm.families.facts import Facts, Unconditional
from ldm.families.record import Family, Latent, Variant
from ldm.families.registry import latent_of
from ldm.families.text_encoders import Encoder
from ldm.files.state import State
from ldm.files.write import Types
from ldm.keys.split_checkpoint import FIRST_STAGE, TEXT, UNET, first_stage_of, parts_in, unet_of

NETWORKS = (UNET, FIRST_STAGE, *TEXT)


@dataclass(frozen=True)
class Model:
    """Named tensors as CompVis has them (whole names, no average beside them) and what is known of them.

    family   None for an autoencoder alone
    source   the path that a person gave
    """

    state: State
    family: Family | None
    source: str
    facts: Facts = field(default_factory=Facts)

    @property
    def unconditional(self) -> Unconditional | None:
        """What stands for no caption; None for an autoencoder alone."""
        return self.facts.unconditional or self.usual_unconditional

    @property
    def usual_unconditional(self) -> Unconditional | None:
        """What stands for no caption in its family's published models."""
        return self.family.unconditional if self.family else None

    @property
    def latent(self) -> Latent:
        """Of its family, or for an autoencoder alone of the one whose scale or channels it has."""
        if self.family:
            return self.family.latent
        first = self.first_stage.get("decoder.conv_in.weight")
        return latent_of(self.facts.scale_factor, None if first is None else first.shape[1])

    @property
    def variant(self) -> Variant | None:
        """Which model of its family it is; None for an autoencoder alone."""
        return self.family.variant(self.unet) if self.family else None

    @property
    def inpaints(self) -> bool:
        return self.variant is not None and self.variant.inpaints

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
        known = self.family.encoders if self.family else ()
        return tuple(encoder for encoder in known if any(key.startswith(encoder.prefix) for key in self.state))

    @property
    def has_text_encoders(self) -> bool:
        """Whether it holds text encoders that its family knows; a family of one's own may take any as its own."""
        own = self.family is not None and not self.family.encoders and "text encoder" in self.parts
        return bool(self.encoders) or own

    @property
    def foreign_text_encoder(self) -> tuple[str, ...]:
        """The tensors of a text encoder that is not its family's, for which other programs have no place."""
        prefixes = tuple(encoder.prefix for encoder in self.encoders)
        text = [key for key in self.state if key.startswith(TEXT)]
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

        Also the empty tensors by which readers of the family's files know how the network was trained.
        """
        if self.facts.exact:
            return self
        absent: State = {}
        for encoder in self.encoders:
            absent |= encoder.absent(self.state)
        absent |= self.family.marks(self.facts) if self.family else {}
        state = self.state | {key: value for key, value in absent.items() if key not in self.state}
        return replace(self, state=state, facts=replace(self.facts, exact=True))

    def types(self, dtype: torch.dtype | None) -> Types:
        """The types to store tensors under: `dtype` for the networks' numbers, their own for counters and tables."""
        if dtype is None:
            return {}
        weights = {key: value for key, value in self.state.items() if key.startswith(NETWORKS)}
        return {key: dtype for key, value in weights.items() if value.is_floating_point()}
