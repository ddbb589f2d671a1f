"""What the command does where adapters are read or written: files of them, and models that they are added to."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from ldm.adapters.adapter_files import Layout
from ldm.adapters.decomposition import RankRule
from ldm.convert.model import Model
from ldm.convert.model_files import DTYPES
from ldm.errors import Fault
from ldm.files.read import Content
from ldm.files.sniff import readable_size
from ldm.files.write import write_errors_as_faults
from ldm.models.diffusion.adapter_export import AdapterExport
from ldm.models.diffusion.published_networks import published_networks, with_weights
from lun.checkpoints.run_card import run_card
from lun.convert.adapter_run import AdapterRun
from lun.convert.adapter_tools import MadeAdapters, extracted, of_file, reworked
from lun.convert.arguments import ConvertArguments, require_adapter_file
from lun.weights.applied_adapters import AppliedAdapter, apply_adapters
from lun.weights.opening import open_model

log = logging.getLogger(__name__)


def write_adapters(source: AdapterRun | tuple[AppliedAdapter, Content], arguments: ConvertArguments) -> int:
    """What a run trained beside its base, or a file of adapters, changed as the command line asks, into files.

    Returns the exit code.
    """
    rule = _prepared(arguments)
    others = [AppliedAdapter.parse(text) for text in arguments.adapter]
    changes = (others, rule, arguments.layers, _dtype(arguments))
    if isinstance(source, AdapterRun):
        trained = source.trained(arguments.ema)
        if rule is not None or others or arguments.layers:
            made = reworked(_adapters_of(trained, source), 1.0, *changes)
            trained = replace(trained, adapters=made.adapters, run=made.metadata)
        return _write_trained(trained, source, arguments)
    _refuse_ema(arguments)
    _require_free(arguments.out, arguments)
    file, content = source
    made = of_file(file, content)
    log.info("reading  %s (adapters of %d layers)", file.path, len(made.adapters.layers))
    if rule is not None or others or arguments.layers or file.strength != 1.0:
        made = reworked(made, file.strength, *changes)
    _write(made, arguments, datetime.fromtimestamp(int(file.path.stat().st_mtime), UTC))
    log.info("note     adapters alone, for the base that they were trained on")
    return 0


def _adapters_of(trained: AdapterExport, source: AdapterRun) -> MadeAdapters:
    if trained.adapters is None:
        what, fix = (
            f"{source.file} holds embeddings and no adapters of layers",
            "without --rank, --layers and --adapter",
        )
        raise Fault("MOD03", what, fix=fix)
    return MadeAdapters(trained.adapters, trained.run)


def _write_trained(trained: AdapterExport, source: AdapterRun, arguments: ConvertArguments) -> int:
    for path in trained.paths(arguments.out):
        _require_free(path, arguments)
    with write_errors_as_faults(str(arguments.out)):
        written = trained.write(arguments.out, _layout(arguments), _dtype(arguments))
        page = run_card(source.run.path, trained.metadata()).beside(next(iter(written)))
    for path, what in written.items():
        log.info("wrote    %s (%s): %s", path, readable_size(path.stat().st_size), what)
    log.info("wrote    %s", page)
    if trained.adapters is not None:
        log.info("note     adapters alone, for the base that they were trained on; --merge writes a whole model")
    return 0


def write_extracted(tuned: Model, arguments: ConvertArguments) -> int:
    """The difference of a model to the one that `--extract` names, as a LoRA. Returns the exit code."""
    _require_free(arguments.out, arguments)
    rule = _prepared(arguments)
    assert rule is not None and arguments.extract is not None
    base = open_model(arguments.extract, trust_pickle=arguments.trust_pickle).model
    _write(extracted(tuned, base, rule, arguments.layers, _dtype(arguments)), arguments, datetime.now(UTC))
    log.info("note     adapters alone, for %s", arguments.extract)
    return 0


def with_adapters(model: Model, given: Sequence[str], dtype: torch.dtype | None) -> Model:
    """A model with files of adapters added to its weights in fp32, which are then rounded once.

    Raises `Fault` MOD03 for what does not fit it.
    """
    if not given:
        return model
    networks = published_networks(model)
    apply_adapters(networks, [AppliedAdapter.parse(text) for text in given], torch.float32)
    return with_weights(model, networks, dtype)


def _prepared(arguments: ConvertArguments) -> RankRule | None:
    """The rank that is asked for. Raises `Fault` for what is asked in vain, before anything long is begun."""
    require_adapter_file(arguments)
    return RankRule.parse(arguments.rank) if arguments.rank is not None else None


def _require_free(path: Path, arguments: ConvertArguments) -> None:
    if path.exists() and not arguments.force:
        raise Fault("CLI05", f"{path} exists already", fix="name another place, or --force to replace it")


def _layout(arguments: ConvertArguments) -> Layout:
    return "diffusers" if arguments.to == "diffusers" else "kohya"


def _refuse_ema(arguments: ConvertArguments) -> None:
    if arguments.ema is not None:
        flag = "--ema" if arguments.ema else "--no-ema"
        raise Fault("CLI02", f"{flag} is for runs", why="a file of adapters holds one set of weights", fix="without it")


def _write(made: MadeAdapters, arguments: ConvertArguments, date: datetime) -> None:
    out = arguments.out
    said = {"modelspec.title": out.stem, "modelspec.date": date.strftime("%Y-%m-%dT%H:%M:%SZ")}
    with write_errors_as_faults(str(out)):
        made.adapters.write(out, _layout(arguments), _dtype(arguments), {**made.metadata, **said})
    size = readable_size(out.stat().st_size)
    log.info("wrote    %s (%s): adapters of %d layers", out, size, len(made.adapters.layers))


def _dtype(arguments: ConvertArguments) -> torch.dtype | None:
    return DTYPES[arguments.dtype] if arguments.dtype else None
