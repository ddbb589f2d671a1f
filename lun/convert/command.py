"""The command: open IN, choose weights and VAE, write OUT, say what it is and what it remarks."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import Fault
from ldm.files.weights_path import path_of_weights
from lun.cli.user_code import admit_user_code
from lun.console import log as console
from lun.console.ending import reported
from lun.console.fault_flags import with_flags
from lun.convert.arguments import (
    CHOICES,
    REPEATED,
    SWITCHES,
    USAGE,
    VAE_ALONE,
    ConvertArguments,
    parse,
    refuse_adapters_own,
    refuse_whole,
    require_folder,
)
from lun.program import as_started

if TYPE_CHECKING:
    from ldm.convert.model import Model
    from ldm.convert.model_files import ExportSettings
    from lun.convert.adapter_run import AdapterRun
    from lun.weights.opening import Opened

log = logging.getLogger(__name__)

COMMAND = "python -m lun.convert"


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says (`sys.argv` by default) and return the exit code; nothing is raised."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _start(parse(words)), [COMMAND, *words])


def _start(arguments: ConvertArguments) -> int:
    if arguments.help:
        print(as_started(USAGE), end="")
        return 0
    if arguments.print_completion:
        from lun.cli.completion import script_of_usage  # reads the shipped presets

        options = {**CHOICES, **dict.fromkeys(REPEATED, ())}
        print(script_of_usage(USAGE, options, [*SWITCHES], COMMAND, arguments.print_completion), end="")
        return 0
    console.configure(None)
    _require_files(arguments)
    # Imports torch, which takes seconds; everything above has answered by then.
    from ldm.convert.model_files import export, remarks, require_apart, require_free
    from ldm.files.sniff import readable_size
    from ldm.modules.encoders.tokenizer_files import with_tokenizers
    from lun.convert.adapter_run import adapter_run
    from lun.convert.adapter_tools import adapter_content
    from lun.convert.adapter_writing import write_adapters, write_extracted
    from lun.convert.vae_parts import with_vae

    admit_user_code(arguments.allow, families=arguments.family)
    require_apart(Path(arguments.source), arguments.out)
    file = adapter_content(arguments.source)
    adapters = None if file else adapter_run(arguments.source)
    if arguments.extract is not None:
        return write_extracted(_whole_model(adapters, arguments).model, arguments)
    if file is not None:
        refuse_whole(arguments)
        return write_adapters(file, arguments)
    if adapters is not None and not arguments.merge:
        return write_adapters(adapters, arguments)
    refuse_adapters_own(arguments)
    if (arguments.merge and adapters is None) or arguments.to == "kohya":
        raise _no_adapters(arguments)
    require_folder(arguments)
    settings = _export_settings(arguments)
    require_free(arguments.out, settings)
    opened = _whole_model(adapters, arguments)
    model = with_vae(opened.model, arguments.vae, arguments.trust_pickle)
    model = with_tokenizers(model) if settings.to == "diffusers" else model
    _describe(model)
    written = export(model, arguments.out, _with_metadata(settings, model, opened, arguments.out))
    for path in written:
        size = sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
        log.info("wrote    %s (%s)", path, readable_size(size))
    for line in remarks(model, settings.to):
        log.info("note     %s", with_flags(line))
    return 0


def _require_files(arguments: ConvertArguments) -> None:
    """Raise `Fault` MOD01 for weights that are not there; behind a file of adapters may stand its strength."""
    if not Path(arguments.source.rpartition(":")[0] or arguments.source).is_file():
        path_of_weights(arguments.source)
    if arguments.vae not in (None, VAE_ALONE):
        path_of_weights(arguments.vae)


def _whole_model(adapters: AdapterRun | None, arguments: ConvertArguments) -> Opened:
    """The model, with the files of adapters that are added to it."""
    from dataclasses import replace

    from ldm.convert.model_files import DTYPES
    from lun.convert.adapter_writing import with_adapters
    from lun.weights.opening import Opened, open_model

    if adapters is not None:
        opened = Opened(adapters.merged(arguments.ema), adapters.date, adapters.run.path)
    else:
        opened = open_model(arguments.source, arguments.ema, arguments.trust_pickle)
    precise = "fp32" if arguments.extract is not None else arguments.dtype
    return replace(opened, model=with_adapters(opened.model, arguments.adapter, DTYPES[precise] if precise else None))


def _no_adapters(arguments: ConvertArguments) -> Fault:
    flag = "--merge" if arguments.merge else "--to kohya"
    why = f"{flag} is for runs that train adapters, or their checkpoints in the run's directory"
    return Fault("MOD03", f"{arguments.source} holds no adapters", where=flag, why=why, fix="--to ldm, without --merge")


def _export_settings(arguments: ConvertArguments) -> ExportSettings:
    from ldm.convert.model_files import DTYPES, ExportSettings
    from ldm.files.size_shards import bytes_of

    size = arguments.max_shard_size
    return ExportSettings(
        to=arguments.to,  # type: ignore[arg-type]
        format=arguments.format,  # type: ignore[arg-type]
        dtype=DTYPES[arguments.dtype] if arguments.dtype else None,
        force=arguments.force,
        max_shard_size=bytes_of(size, "--max-shard-size") if size else None,
    )


def _with_metadata(settings: ExportSettings, model: Model, opened: Opened, out: Path) -> ExportSettings:
    """With the date of the weights, and the card of those that a run made."""
    from dataclasses import replace

    from ldm.convert.modelspec import metadata_of
    from lun.checkpoints.run_card import run_card

    metadata = metadata_of(model, out.stem, opened.date)
    return replace(settings, date=opened.date, card=run_card(opened.run, metadata) if opened.run else None)


def _describe(model: Model) -> None:
    from ldm.families.facts import NETWORK

    kind = model.family.title if model.family else "an autoencoder"
    prediction = f", predicts {model.facts.prediction}" if model.family else ""
    titles = {"UNet": model.family.network.title} if model.family else {}
    counts = ", ".join(f"{titles.get(name, name)} {count}" for name, count in model.parts.items())
    public = not model.family or model.family.network.is_public(model.unet)
    log.info("model    %s%s%s (tensors: %s)", "" if public else "built like ", kind, prediction, counts)
    if not public and not model.facts.configs.get(NETWORK):
        log.warning("widths of another network than %s: its number of attention heads is assumed", kind)
