"""`python -m lun.data.cache --base YAML ... --data_root DIR`: fill the cache of moments without training."""

import sys
from collections.abc import Sequence

import torch

from ldm.errors import Fault
from ldm.models.diffusion.weights import start_networks
from ldm.util import instantiate_from_config
from lun.data.moments.encoder import Encoder
from lun.data.moments.fill import Share
from lun.data.moments.settings import Cache
from lun.launch import cli, log
from lun.launch.ending import reported
from lun.launch.settings import read_settings

PART = "first stage"


def main(argv: Sequence[str] | None = None) -> int:
    """Fill the cache that a training with the same words would use; returns the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _fill(words), words)


def _fill(words: list[str]) -> int:
    arguments = cli.parse(words)
    log.configure(None)
    config = read_settings(arguments, None).config
    data = instantiate_from_config(config["data"])
    data.cache = data.cache or Cache()
    data.setup("fit")
    data.describe()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data.cache_moments(Encoder(first_stage(config).to(device), device), Share())
    return 0


def first_stage(config: dict) -> torch.nn.Module:
    """The first stage of `config` with its weights, and nothing else of the model."""
    model = instantiate_from_config(config["model"])
    parts = {name: part for name, part in model.part_recipes().items() if name == PART}
    if not parts:
        raise Fault("CFG08", f"{type(model).__name__} has no first stage whose moments could be cached")
    network = start_networks(parts, model.start())[PART]
    return network.requires_grad_(False).eval()


if __name__ == "__main__":
    sys.exit(main())
