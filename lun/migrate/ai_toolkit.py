"""ai-toolkit's YAML: `config.process[0].datasets`, a list of folders."""

from collections.abc import Mapping
from typing import Any

from lun.migrate.foreign import Found, Taken, caption_files, share_by_weight

HARMLESS = ("cache_latents", "cache_latents_to_disk", "type", "num_workers", "prefetch_factor", "buckets")


def read(content: Mapping[str, Any]) -> Found:
    """The folders of the first process. Raises `Fault` CFG02 for what is no such file."""
    found = Found()
    regular: list[str] = []
    regularising: list[str] = []
    process = Taken(content["config"]["process"][0], "config.process.0")
    trigger = process.text("trigger_word")
    size = Taken(process("train", {}), "config.process.0.train")("batch_size")
    found.batch_size = size if isinstance(size, int) else None
    for number, dataset in enumerate(process("datasets", [])):
        taken = Taken(dataset, f"config.process.0.datasets.{number}")
        (regularising if taken("is_reg") else regular).append(_dataset(found, taken, trigger))
    if regularising:
        share_by_weight(found, regular, regularising)
    return found


def _dataset(found: Found, taken: Taken, trigger: str) -> str:
    root = taken.text("folder_path") or taken.text("dataset_path")
    trigger = taken.text("trigger_word") or trigger
    shuffles, drops = taken("shuffle_tokens"), taken.number("token_dropout_rate")
    keep = int(taken.number("keep_tokens"))
    params = {
        "data_root": root,
        "default_caption": taken.text("default_caption"),
        "flip_p": 0.5 if taken("flip_x") else 0.0,
        "mask": "alpha" if taken("alpha_mask") else None,
        "captions": {
            "split_tags": "," if shuffles or drops else None,
            "shuffle_tag_p": 1.0 if shuffles else None,
            "tag_dropout_p": drops,
            "keep_tags": keep if shuffles or drops else None,
            "trigger": trigger,
            "files": caption_files(taken.text("caption_ext")),
        },
    }
    resolution = taken("resolution", 512)
    sides = resolution if isinstance(resolution, list) else [resolution]
    loss, rate, repeats = (taken.number(*one) for one in _NUMBERS)
    said = {"loss_weight": None if loss == 1 else loss, "repeats": None if repeats == 1 else repeats}
    kind = "prior" if taken("prior_reg") else "class" if taken("is_reg") else None
    name = found.add(root, params, sides, square=False, **said, kind=kind, ucg_rate=rate or None)
    found.unread += taken.left(*HARMLESS)
    return name


_NUMBERS = (("loss_multiplier", 1), ("caption_dropout_rate", 0), ("num_repeats", 1))
