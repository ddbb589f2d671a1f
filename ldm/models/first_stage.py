"""What a KL autoencoder is to others: a network between pictures and latents, with CompVis' names on disk."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, cast

from torch import Tensor, nn

from ldm.errors import Fault
from ldm.files.load import load_part
from ldm.files.state import State
from ldm.files.weights_location import find_source
from ldm.keys.split_checkpoint import FIRST_STAGE, part_of
from ldm.keys.table import KeyTable
from ldm.keys.vae import compvis_autoencoder_names, is_attention_matrix, old_autoencoder_names
from ldm.modules.meta_init import is_meta_init, meta_init
from ldm.modules.networks.vae import build_autoencoder, refuse_other_shape
from ldm.modules.overflow import outside_float16

TRAINING_ONLY = ("loss.", "model_ema.")  # what CompVis' own autoencoder checkpoints hold besides the networks
OLD_FEATURES = "loss.perceptual_loss."  # VGG16, which files of 2022 hold and ours do not


class FirstStage:
    """Encoder and decoder, the library's, under `network`; the module that inherits says when they are built."""

    network: Any
    table: KeyTable
    loaded_from: str | None
    overflows_in_float16 = True

    def build_network(self, config: Mapping[str, Any], path: str | None, ignore_keys: Sequence[str] = ()) -> None:
        """Build what `library_config` gave, and fill it from `path` if there is one; `Fault` MOD01 to MOD05."""
        self.least_latents = 2 if config.get("padding_mode") == "reflect" else 1
        with meta_init() if path and not ignore_keys else nullcontext():
            self.network = build_autoencoder(config)
        keys = self.network.state_dict()
        self.table = KeyTable(compvis_autoencoder_names(keys), "network", old_autoencoder_names(keys))
        if path and not is_meta_init():
            source = find_source(path, "vae")
            refuse_other_shape(config, source.config, path)
            load_part(
                cast(nn.Module, self), part_of(source.read(), FIRST_STAGE), path, ignore=(*TRAINING_ONLY, *ignore_keys)
            )
            self.loaded_from = path

    def encode_moments(self, x: Tensor) -> Tensor:
        """Mean and log-variance, joined: (b, 3, h, w) in [-1, 1] to (b, 2 z_channels, h / f, w / f).

        Raises `Fault` CFG08 for pictures smaller than one latent.
        """
        smallest = int(getattr(self, "downsampling", 1)) * getattr(self, "least_latents", 1)
        if min(x.shape[-2:]) < smallest:
            raise Fault(
                "CFG08",
                f"pictures of {x.shape[-1]} x {x.shape[-2]} pixels are too small for this first stage",
                where="data.params.train.params.size",
                why=f"it needs {smallest} x {smallest} pixels",
                fix="data.params.train.params.size=512, or the size that the model was made for",
            )
        with outside_float16(self.network, _laid_out(x)) as safe:
            return self.network.quant_conv(self.network.encoder(safe))

    def decode(self, z: Tensor) -> Tensor:
        """Pictures of unscaled latents: (b, z_channels, h, w) to (b, 3, f h, f w) in about [-1, 1]."""
        with outside_float16(self.network, z) as safe:
            return self.network.decoder(self.network.post_quant_conv(safe))

    def computing_parts(self) -> tuple[nn.Module, ...]:
        """The modules whose forward passes those of this one are."""
        return (*self.encoding_parts(), self.network.post_quant_conv, self.network.decoder)

    def encoding_parts(self) -> tuple[nn.Module, nn.Module]:
        """The parts on which the meaning of a latent depends."""
        return self.network.encoder, self.network.quant_conv

    def to_disk(self, state: Mapping[str, Tensor]) -> State:
        """This module's keys to CompVis' (`encoder.down.0.block.0.conv1.weight`), without `first_stage_model.`."""
        matrices = {key: value for key, value in state.items() if is_attention_matrix(key)}
        return self.table.to_disk(dict(state) | {key: value[:, :, None, None] for key, value in matrices.items()})

    def from_disk(self, state: Mapping[str, Tensor]) -> State:
        """CompVis' keys, diffusers' or this module's own to this module's own."""
        own = self.table.from_disk({key: value for key, value in state.items() if not key.startswith(OLD_FEATURES)})
        convolutions = {key: value for key, value in own.items() if is_attention_matrix(key) and value.ndim == 4}
        return own | {key: value[:, :, 0, 0] for key, value in convolutions.items()}


def _laid_out(pictures: Tensor) -> Tensor:
    """Pictures (b, 3, h, w) in the order of memory in which they are encoded fastest.

    From a loader they come with channels last. On a CPU convolutions take an eighth less time so; elsewhere each group
    normalisation copies what is laid out like this, ten times in an encoder.
    """
    return pictures if pictures.device.type == "cpu" else pictures.contiguous()
