"""kohya sd-scripts' dataset TOML: `[general]`, `[[datasets]]`, `[[datasets.subsets]]`, each over the one before."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from lun.migrate.foreign import Found, Taken, caption_files, share_by_weight

HARMLESS = ("subsets", "enable_bucket", "bucket_no_upscale")


def read(content: Mapping[str, Any]) -> Found:
    """The sets of a file. Raises `Fault` CFG02 for what is no such file."""
    found = Found()
    regular: list[str] = []
    regularising: list[str] = []
    general = Taken(content.get("general", {}), "general").given
    for number, dataset in enumerate(content["datasets"]):
        where = f"datasets.{number}"
        dataset = {**general, **Taken(dataset, where).given}
        _batch(found, dataset.get("batch_size"), where)
        for place, subset in enumerate(dataset.get("subsets", [])):
            here = f"{where}.subsets.{place}"
            name = _subset(found, Taken({**dataset, **Taken(subset, here).given}, here))
            (regularising if found.sets[name].get("kind") == "class" else regular).append(name)
    if regularising:
        share_by_weight(found, regular, regularising)
    return found


def _batch(found: Found, size: Any, where: str) -> None:
    if size and found.batch_size not in (None, size):
        found.unread.append(f"{where}.batch_size: {size}; a run has one batch size")
    found.batch_size = found.batch_size or size


def _subset(found: Found, taken: Taken) -> str:
    folder, metadata = taken.text("image_dir"), taken.text("metadata_file")
    taken("batch_size")
    root = folder or str(PurePath(metadata).parent)
    if metadata and PurePath(metadata).parent != PurePath(root):
        found.unread.append(f"{taken.where}.metadata_file: {metadata!r}; it is read where it lies in the folder itself")
    params = {
        "data_root": root,
        "layout": "kohya-json" if metadata else None,
        "default_caption": taken.text("class_tokens"),
        "flip_p": 0.5 if taken("flip_aug") else 0.0,
        "crop": "random" if taken("random_crop") else None,
        "mask": "alpha" if taken("alpha_mask") else None,
        "captions": _captions(found, taken),
    }
    resolution = taken("resolution", 512)
    sides = [resolution] if not isinstance(resolution, list) else [(resolution[0] * resolution[-1]) ** 0.5]
    square = not taken("enable_bucket")
    if not square:
        found.buckets["step"] = int(taken.number("bucket_reso_steps", 64))
    regularising = bool(taken("is_reg"))
    repeats = taken.number("num_repeats", 1)
    rate = taken.number("caption_dropout_rate")
    said = {"repeats": None if repeats == 1 else repeats, "kind": "class" if regularising else None}
    name = found.add(root, params, [round(side) for side in sides], square, **said, ucg_rate=rate or None)
    found.unread += taken.left(*HARMLESS)
    return name


def _captions(found: Found, taken: Taken) -> dict[str, Any]:
    shuffles, drops = taken("shuffle_caption"), taken.number("caption_tag_dropout_rate")
    keep, fence = int(taken.number("keep_tokens")), taken.text("keep_tokens_separator")
    separator = str(taken("caption_separator", ","))
    tags = shuffles or drops or fence or taken("token_warmup_step")
    wildcards = bool(taken("enable_wildcard"))
    return {
        "split_tags": separator if tags else None,
        "shuffle_tag_p": 1.0 if shuffles else None,
        "keep_tags": keep if tags else None,
        "keep_separator": fence,
        "tag_dropout_p": drops,
        **_warm_up(found, taken),
        "files": caption_files(taken.text("caption_extension")),
        "prefix": taken.text("caption_prefix"),
        "suffix": taken.text("caption_suffix"),
        "wildcards": wildcards,
        "several_captions": wildcards,  # there each line is one of several then
    }


def _warm_up(found: Found, taken: Taken) -> dict[str, Any]:
    """The steps over which tags grow; below 1 they are a share of a run, whose length no data set knows."""
    steps, least = taken.number("token_warmup_step"), int(taken.number("token_warmup_min", 1))
    if 0 < steps < 1:
        found.unread.append(
            f"{taken.where}.token_warmup_step: {steps} of the run; tag_warmup_steps is a number of steps"
        )
    return {"tag_warmup_steps": int(steps), "tag_warmup_min": least} if steps >= 1 else {}
