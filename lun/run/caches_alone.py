"""The command: fill the caches that a training with the same words would use, without training."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ldm.util import instantiate_from_config
from lun.cli.borrowed_words import borrowed_words
from lun.cli.user_code import admit_user_code
from lun.console import log
from lun.console.ending import reported
from lun.run.build_model import build_model
from lun.run.required_files import require_pictures
from lun.run.settings import read_settings

if TYPE_CHECKING:
    from torch import nn

    from lun.data.cache.cache_settings import Cache

COMMAND = "python -m lun.data.cache"
USAGE = f"""\
usage: {COMMAND} --base YAML ... [settings and Trainer arguments as of main.py] [--data_root DIR]
                                [--init-from CKPT] [--allow MODULE] [--family NAME|MODULE.NAME] [-d]

  Fills the caches of latents, and of captions where they are cached, that a training with these words would use,
  without training.

  {COMMAND} --base sd15 latent-cache --data_root DIR
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Fill the caches that a training with the same words would use; returns the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _fill(words), [COMMAND, *words])


def _fill(words: list[str]) -> int:
    arguments = borrowed_words(words, COMMAND, USAGE, "--base sd15 latent-cache --data_root DIR")
    if arguments is None:
        return 0
    log.configure(None)
    admit_user_code(arguments.allow, families=arguments.family)
    settings = read_settings(arguments, None)
    settings.say_notes()
    config = settings.config
    require_pictures(config["data"])
    # Imports torch, which takes seconds; everything above has answered by then.
    import torch

    from lun.data.cache.cache_settings import Cache
    from lun.data.cache.latents.encoder import LatentEncoder
    from lun.data.cache.shards.filling import Share
    from lun.data.cache.text.encoder import TextEncoder
    from lun.run.fill_caches import FIRST_STAGE, TEXT_ENCODER
    from lun.strategies.precision import policy_of

    data = instantiate_from_config(config["data"])
    cache = data.cache = data.cache or Cache()
    data.setup("fit")
    data.describe()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    networks = frozen_networks(config, cache)
    precision = policy_of(config["lightning"]["trainer"].get("precision")).plugin(device.type)
    for network in networks.values():
        precision.convert_module(network)  # as training has them, which would not know states of another precision
    data.cache_moments(LatentEncoder(networks[FIRST_STAGE].to(device), device), Share())
    if TEXT_ENCODER in networks:
        data.cache_text(TextEncoder(networks[TEXT_ENCODER].to(device), device), Share())
    return 0


def frozen_networks(config: Mapping[str, Any], cache: Cache) -> dict[str, nn.Module]:
    """The first stage of `config`, and the text encoder unless that is trained or left out, with their weights.

    Raises `Fault` CFG08 for a model of pixels, and for captions that a trained text encoder reads.
    """
    from ldm.models.diffusion.initial_weights import start_networks
    from lun.run.fill_caches import FIRST_STAGE, TEXT_ENCODER, require_first_stage, require_lasting_captions

    model: Any = build_model(config)
    require_first_stage(model)
    require_lasting_captions(model, cache)
    wanted = (FIRST_STAGE,) if cache.text is False else (FIRST_STAGE, TEXT_ENCODER)
    trained = {part.name for part in model.training_plan().parts if part.trained}
    parts = {name: part for name, part in model.part_recipes().items() if name in wanted and name not in trained}
    networks = start_networks(parts, model.start())
    return {name: network.requires_grad_(False).eval() for name, network in networks.items()}
