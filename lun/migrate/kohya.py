"""kohya sd-scripts' dataset TOML: `[general]`, `[[datasets]]`, `[[datasets.subsets]]`, each over the one before."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from lun.migrate.by_table import said_by
from lun.migrate.foreign import Found, Taken, share_by_weight
from lun.other_trainers.counterparts import TRAIN
from lun.other_trainers.kohya_data_table import DATA_ROWS

HARMLESS = ("subsets", "enable_bucket", "bucket_no_upscale", "min_bucket_reso", "max_bucket_reso", "layout")
OF_A_RUN = {
    *("train_data_dir", "reg_data_dir", "in_json", "dataset_config", "config_file", "output_config", "debug_dataset"),
    *("dataset_repeats", "train_batch_size", "max_data_loader_n_workers", "persistent_data_loader_workers"),
    *("cache_latents", "cache_latents_to_disk", "cache_text_encoder_outputs", "cache_text_encoder_outputs_to_disk"),
    *(
        "vae_batch_size",
        "text_encoder_batch_size",
        "skip_cache_check",
        "skip_latents_validity_check",
        "cache_info",
        "masked_loss",
        "dataset_class",
    ),
}
OF_A_SUBSET = tuple(name for name in DATA_ROWS if name not in OF_A_RUN)
"""Settings of the command that hold for each subset which says nothing else."""
_OF_TAGS = ("split_tags", "keep_tags")


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
    size = int(float(size)) if size else None
    if size and found.batch_size not in (None, size):
        found.unread.append(f"{where}.batch_size: {size}; a run has one batch size")
    found.batch_size = found.batch_size or size


def _subset(found: Found, taken: Taken) -> str:
    folder, metadata = taken.text("image_dir"), taken.text("metadata_file")
    root = folder or str(PurePath(metadata).parent)
    if metadata and PurePath(metadata).parent != PurePath(root):
        found.unread.append(f"{taken.where}.metadata_file: {metadata!r}; it is read where it lies in the folder itself")
    sides, square = _sides(found, taken)
    repeats, regularising = taken.number("num_repeats", 1), bool(taken("is_reg"))
    layout = taken("layout")
    taken("batch_size")
    _warm_up(found, taken)
    separator = taken.text("caption_separator")
    said, unread = said_by(taken, DATA_ROWS)
    found.unread += [line for line in unread if line not in found.unread]
    params = said.pop(TRAIN, {})
    rules = params.pop("captions", {})
    if not rules.keys() - {"split_tags", "keep_tags", "prefix", "suffix", "files", "wildcards", "several_captions"}:
        rules = {key: value for key, value in rules.items() if key not in _OF_TAGS}  # tags that nothing moves or drops
    elif separator:
        rules["split_tags"] = separator
    params = {
        "data_root": root,
        "layout": "kohya-json" if metadata else layout,
        "flip_p": 0.0,
        **params,
        "captions": rules,
    }
    rate = said.pop("model.params.ucg_rate", None)
    often = {"repeats": None if repeats == 1 else repeats, "kind": "class" if regularising else None}
    name = found.add(root, params, sides, square, **often, ucg_rate=rate)
    found.settings |= said
    found.unread += taken.left(*HARMLESS)
    return name


def _sides(found: Found, taken: Taken) -> tuple[list[float], bool]:
    """([the side of a square of the same area], whether all pictures are cut to squares); notes buckets."""
    resolution = taken("resolution", 512)
    if isinstance(resolution, str):
        resolution = [float(part) for part in resolution.split(",")]
    area = resolution[0] * resolution[-1] if isinstance(resolution, list) else resolution**2
    upscale = "bucket_no_upscale: small pictures are enlarged to their shape; metadata_params.min_size leaves them out"
    if taken("bucket_no_upscale") and upscale not in found.unread:
        found.unread.append(upscale)
    if not taken("enable_bucket"):
        return [round(area**0.5)], True
    found.buckets["step"] = int(taken.number("bucket_reso_steps", 64))
    least, most = taken.number("min_bucket_reso", 256), taken.number("max_bucket_reso", 1024)
    narrowest = round(least / min(most, area / least), 4)
    if 0 < narrowest < 1:
        found.buckets |= {"min_aspect": narrowest, "max_aspect": round(1 / narrowest, 4)}
    return [round(area**0.5)], False


def _warm_up(found: Found, taken: Taken) -> None:
    """Leave warm-up to the table where it is a number of steps; below 1 it is a share of a run, whose length no data
    set knows."""
    steps = taken.number("token_warmup_step")
    if 0 < steps < 1:
        found.unread.append(
            f"{taken.where}.token_warmup_step: {steps} of the run; tag_warmup_steps is a number of steps"
        )
    if steps < 1:
        taken("token_warmup_min")
    else:
        taken.names.discard("token_warmup_step")
