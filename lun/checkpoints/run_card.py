"""The model card of weights that a run made: base, data, settings and samples, off the run's directory alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ldm.convert.model_card import FILL_IN, PICTURE_HERE, ModelCard
from ldm.errors import Fault
from ldm.files.weights_path import ENDINGS, HUB_ID
from ldm.plain import parse_json, read_json, require_ordinary
from lun.config.reading.yaml_files import read_text
from lun.config.reading.yaml_tree import parse
from lun.previews.samples import Sample, SampleRecord

KINDS = {"lora": ("lora",), "textual-inversion": ("textual_inversion",), "vae": ("vae",)}
"""The hub's tags for what ModelSpec calls the second half of an architecture."""
TAGS = 30
LARGEST_PICTURE = 20 << 20
"""Bytes of a sheet of samples that goes along."""


def run_card(run: Path, metadata: Mapping[str, str]) -> ModelCard:
    """The card of weights whose metadata `run_metadata` made, whatever of the run is missing or broken left out.

    No path of this machine stands in it: files are called by their names alone.
    """
    settings, record = _settings(run), _map(_json(run / "run.json"))
    samples, picture = _samples(run / "images" / "samples", metadata)
    bases = list(dict.fromkeys(_bases(settings.get("model"))))
    parts = [
        _front(metadata, bases),
        f"# {_line(metadata.get('lun.run') or run.name)}",
        _what(metadata),
        "## Base\n\n" + _base(metadata, bases),
        "## Data\n\n" + _data(record, metadata),
        "## Settings\n\n" + _table(_chosen(settings, record, metadata)),
    ]
    if samples:
        image = f"\n\n![samples]({PICTURE_HERE})" if picture else ""
        parts.append("## Samples\n\n" + "\n".join(samples) + image)
    return ModelCard("\n\n".join(parts) + "\n", picture)


def _front(metadata: Mapping[str, str], bases: Sequence[str]) -> str:
    """The hub's metadata. The licence is a comment until a person has said which it is."""
    of_base = metadata.get("modelspec.license")
    known = f"; the base is published under: {_line(of_base)}" if of_base else ""
    lines = [f"# license: {FILL_IN} an id of the hub, such as creativeml-openrail-m or openrail++{known}"]
    kind = metadata.get("modelspec.architecture", "").partition("/")[2]
    lines += ["library_name: diffusers", *([] if kind == "vae" else ["pipeline_tag: text-to-image"])]
    lines.append(f"tags: {json.dumps(['stable-diffusion', *KINDS.get(kind, ())])}")
    if hub := [base for base in bases if HUB_ID.fullmatch(base) and "/" in base]:
        lines.append(f"base_model: {hub[0].partition('@')[0]}")
    return "---\n" + "\n".join(lines) + "\n---"


def _what(metadata: Mapping[str, str]) -> str:
    facts = {
        "architecture": metadata.get("modelspec.architecture"),
        "predicts": metadata.get("modelspec.prediction_type"),
        "weights": {"ema": "averaged (EMA)", "raw": "of the last step"}.get(metadata.get("lun.weights", "")),
        "step": metadata.get("ss_steps"),
    }
    return _table([(name, value) for name, value in facts.items() if value])


def _base(metadata: Mapping[str, str], bases: Sequence[str]) -> str:
    hashes = [(key, value) for key, value in sorted(metadata.items()) if key.startswith("lun.base.")]
    named = ", ".join(map(_line, bases)) or "none that the settings name: trained from scratch"
    text = f"{named}\n\nLicence of these weights: **{FILL_IN}**; what the base's licence asks of them holds as well."
    return text + ("\n\n" + _table(hashes) if hashes else "")


def _data(record: Mapping[str, Any], metadata: Mapping[str, str]) -> str:
    count = _map(record.get("data")).get("n")
    lines = [f"{count:,} examples." if isinstance(count, int) else "How many examples is not known."]
    if common := _tags(metadata):
        lines.append("Most frequent: " + ", ".join(f"{_line(tag)} ({number:,})" for tag, number in common) + ".")
    return " ".join(lines) + f"\n\nWhere the pictures come from, and whose they are: **{FILL_IN}**."


def _tags(metadata: Mapping[str, str]) -> list[tuple[str, int]]:
    try:
        folders = parse_json(metadata.get("ss_tag_frequency", "{}"))
    except ValueError:
        return []
    total: Counter[str] = Counter()
    for counts in _map(folders).values():
        total.update({tag: number for tag, number in _map(counts).items() if isinstance(number, int)})
    return total.most_common(TAGS)


def _chosen(
    settings: Mapping[str, Any], record: Mapping[str, Any], metadata: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """What decides a result most, as (name, value); all of it is in the run's resolved.yaml, whose hash comes last."""
    model, trainer = _map(settings.get("model")), _map(_map(settings.get("lightning")).get("trainer"))
    params = _map(model.get("params"))
    found = {
        "images a step": _map(record.get("data")).get("global_batch"),
        "base learning rate": model.get("base_learning_rate"),
        "precision": trainer.get("precision"),
        "seed": record.get("seed"),
        "program": record.get("commit"),
    }
    yield from ((name, str(value)) for name, value in found.items() if isinstance(value, (int, float, str)))
    for name in ("optimizer_config", "scheduler_config", "ema_config", "objective", "adapter_config"):
        recipe = _map(params.get(name))
        if target := recipe.get("target"):
            plain = {key: one for key, one in _map(recipe.get("params")).items() if isinstance(one, (int, float, str))}
            yield name, " ".join([str(target), *(f"{key}={one}" for key, one in plain.items())])
    if digest := metadata.get("lun.config_sha256"):
        yield "resolved.yaml, sha256", digest


def _samples(folder: Path, metadata: Mapping[str, str]) -> tuple[list[str], bytes | None]:
    """A line for each prompt of the newest samples of these weights, and their sheet."""
    step = metadata.get("ss_steps", "")
    record = SampleRecord(folder)
    known = [one for one in record.read() if not step.isdecimal() or one.step <= int(step)]
    newest = max((one.step for one in known), default=0)
    last = [one for one in known if one.step == newest]
    same: list[Sample] = [one for one in last if one.weights == metadata.get("lun.weights")] or last
    lines = [f"- {_line(one.prompt)} (seed {one.seed}, step {one.step})" for one in same]
    return lines, _bytes(folder / Path(same[0].file).name) if same else None


def _bytes(picture: Path) -> bytes | None:
    try:
        return picture.read_bytes() if require_ordinary(picture) <= LARGEST_PICTURE else None
    except (OSError, ValueError):
        return None


def _bases(model: Any) -> Iterator[str]:
    """Each `ckpt_path` of the model's settings, at any depth: a hub id as it is, a file or folder by its name."""
    for key, value in _map(model).items():
        if key == "ckpt_path" and isinstance(value, str) and value:
            hub = HUB_ID.fullmatch(value) and Path(value).suffix not in ENDINGS and not Path(value).exists()
            yield value if hub else Path(value).name
        elif isinstance(value, dict):
            yield from _bases(value)


def _settings(run: Path) -> Mapping[str, Any]:
    file = run / "configs" / "resolved.yaml"
    try:
        return _map(parse(read_text(file), file.as_posix()).plain())
    except (Fault, OSError, ValueError):
        return {}


def _json(file: Path) -> Any:
    try:
        return read_json(file)
    except (OSError, ValueError):
        return None


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _table(rows: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {_line(name)} | {_line(value)} |" for name, value in rows)])


def _line(text: str) -> str:
    """On one line, and nothing in it that Markdown or HTML would take for its own."""
    plain = " ".join(str(text).split())
    return "".join("\\" + sign if sign in "\\`*[]|<>#" else sign for sign in plain)
