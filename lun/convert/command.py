"""The command: open IN, choose weights and VAE, write OUT, say what it is and what it remarks."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lun.cli.user_code import admit_user_code
from lun.console import log as console
from lun.console.ending import reported
from lun.console.fault_flags import with_flags
from lun.convert.arguments import USAGE, ConvertArguments, parse

if TYPE_CHECKING:
    from ldm.convert.model import Model
    from ldm.convert.model_files import Wish

log = logging.getLogger(__name__)


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says (`sys.argv` by default) and return the exit code; nothing is raised."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _start(parse(words)), ["python -m lun.convert", *words])


def _start(arguments: ConvertArguments) -> int:
    if arguments.help:
        print(USAGE, end="")
        return 0
    # Imports torch, which takes seconds; everything above has answered by then.
    from ldm.convert.model_files import export, remarks, require_apart, require_free
    from ldm.files.sniff import readable_size
    from ldm.modules.encoders.tokenizer_files import with_tokenizers
    from lun.convert.vae_parts import with_vae
    from lun.weights.opening import open_model

    console.configure(None)
    admit_user_code(arguments.allow)
    wish = _wish(arguments)
    require_apart(Path(arguments.source), arguments.out)
    require_free(arguments.out, wish)
    opened = open_model(arguments.source, arguments.ema, arguments.trust_pickle)
    model = with_vae(opened.model, arguments.vae, arguments.trust_pickle)
    model = with_tokenizers(model) if wish.to == "diffusers" else model
    _describe(model)
    written = export(model, arguments.out, _dated(wish, opened.date))
    for path in written:
        size = sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
        log.info("wrote    %s (%s)", path, readable_size(size))
    for line in remarks(model, wish.to):
        log.info("note     %s", with_flags(line))
    return 0


def _wish(arguments: ConvertArguments) -> Wish:
    from ldm.convert.model_files import DTYPES, Wish
    from ldm.files.size_shards import bytes_of

    size = arguments.max_shard_size
    return Wish(
        to=arguments.to,  # type: ignore[arg-type]
        format=arguments.format,  # type: ignore[arg-type]
        dtype=DTYPES[arguments.dtype] if arguments.dtype else None,
        force=arguments.force,
        max_shard_size=bytes_of(size, "--max-shard-size") if size else None,
    )


def _dated(wish: Wish, date: str) -> Wish:
    from dataclasses import replace

    return replace(wish, date=date)


def _describe(model: Model) -> None:
    from ldm.families.facts import NETWORK

    kind = model.family.title if model.family else "an autoencoder"
    prediction = f", predicts {model.facts.prediction}" if model.family else ""
    counts = ", ".join(f"{name} {count}" for name, count in model.parts.items())
    public = not model.family or model.family.network.is_public(model.unet)
    log.info("model    %s%s%s (tensors: %s)", "" if public else "built like ", kind, prediction, counts)
    if not public and not model.facts.configs.get(NETWORK):
        log.warning("widths of another network than %s: its number of attention heads is assumed", kind)
