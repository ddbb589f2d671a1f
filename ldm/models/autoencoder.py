"""The KL autoencoder between pictures and latents (Rombach et al. 2022, arXiv 2112.10752)."""

from collections.abc import Sequence
from contextlib import nullcontext

from torch import Tensor, nn

from ldm.checkpoint.autoencoder_keys import compvis_autoencoder_names, is_attention_matrix, old_autoencoder_names
from ldm.checkpoint.hollow import hollow, is_hollow
from ldm.checkpoint.load import load_part
from ldm.checkpoint.parts import FIRST_STAGE, part_of
from ldm.checkpoint.source import find_source
from ldm.checkpoint.state import State
from ldm.checkpoint.table import KeyTable
from ldm.errors import Fault
from ldm.modules.networks.autoencoder import DDConfig, build_autoencoder, library_config, refuse_other_shape
from ldm.util import Recipe

TRAINING_ONLY = ("loss.", "model_ema.")  # what CompVis' own autoencoder checkpoints hold besides the networks


class AutoencoderKL(nn.Module):
    """Encodes pictures to the moments of a latent and decodes latents; what is frozen is its owner's decision.

    embed_dim    channels of a latent
    lossconfig   recipe of the loss for training it; a frozen first stage has no use for it
    ckpt_path    a diffusers folder (vae/), a pipeline's folder, or a file of the autoencoder or of a whole checkpoint
    ignore_keys  beginnings of keys on disk that are neither loaded nor asked for
    image_key    key of the pictures in a batch
    monitor      metric by which the best checkpoints are kept

    The attributes `downsampling` (pixels per latent, a side) and `z_channels` describe a latent.
    """

    def __init__(
        self,
        ddconfig: DDConfig,
        embed_dim: int,
        lossconfig: Recipe | None = None,
        ckpt_path: str | None = None,
        ignore_keys: Sequence[str] = (),
        image_key: str = "image",
        colorize_nlabels: int | None = None,
        monitor: str | None = None,
        from_scratch: bool = False,
    ) -> None:
        super().__init__()
        if colorize_nlabels is not None:
            raise Fault("CFG03", "colorize_nlabels is for label maps, which are not supported", fix="delete the line")
        self.lossconfig = lossconfig
        self.image_key = image_key
        self.monitor = monitor
        self.from_scratch = from_scratch
        self.loaded_from: str | None = None
        config = library_config(ddconfig, embed_dim)
        self.downsampling = 2 ** (len(ddconfig["ch_mult"]) - 1)
        self.z_channels = embed_dim
        whole = ckpt_path and not ignore_keys
        with hollow() if whole else nullcontext():
            self.network = build_autoencoder(config)
        keys = self.network.state_dict()
        self.table = KeyTable(compvis_autoencoder_names(keys), "network", old_autoencoder_names(keys))
        if ckpt_path and not is_hollow():
            source = find_source(ckpt_path, "vae")
            refuse_other_shape(config, source.config, ckpt_path)
            load_part(self, part_of(source.read(), FIRST_STAGE), ckpt_path, ignore=(*TRAINING_ONLY, *ignore_keys))
            self.loaded_from = ckpt_path

    def encode_moments(self, x: Tensor) -> Tensor:
        """Mean and log-variance, joined: (b, 3, h, w) in [-1, 1] to (b, 2 z_channels, h / f, w / f)."""
        return self.network.quant_conv(self.network.encoder(x))

    def decode(self, z: Tensor) -> Tensor:
        """Pictures of unscaled latents: (b, z_channels, h, w) to (b, 3, f h, f w) in about [-1, 1]."""
        return self.network.decoder(self.network.post_quant_conv(z))

    def to_disk(self, state: State) -> State:
        """This module's keys to CompVis' (`encoder.down.0.block.0.conv1.weight`), without `first_stage_model.`."""
        matrices = {key: value for key, value in state.items() if is_attention_matrix(key)}
        return self.table.to_disk(state | {key: value[:, :, None, None] for key, value in matrices.items()})

    def from_disk(self, state: State) -> State:
        """CompVis' keys, diffusers' or this module's own to this module's own."""
        own = self.table.from_disk(state)
        convolutions = {key: value for key, value in own.items() if is_attention_matrix(key) and value.ndim == 4}
        return own | {key: value[:, :, 0, 0] for key, value in convolutions.items()}
