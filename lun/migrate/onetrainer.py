"""OneTrainer's concepts JSON: a list of concepts, each a folder."""

from collections.abc import Mapping, Sequence
from typing import Any

from lun.migrate.foreign import Found, Taken

HARMLESS = ("seed", "concept_stats", "image_variations", "text_variations", "include_subdirectories", "type")
IMAGE = ("enable_random_flip", "enable_resolution_override", "resolution_override")


def read(content: Sequence[Any]) -> Found:
    """The concepts that are on. Raises `Fault` CFG02 for what is no such file."""
    found = Found()
    for number, concept in enumerate(content):
        taken = Taken(concept, str(number))
        kind = taken("type", "STANDARD")
        if not taken("enabled", True):
            continue
        if kind not in _KINDS:
            found.unread.append(f"{number}.type: {kind!r}; {_OTHERS.get(kind, 'no such set is known')}")
            continue
        _concept(found, taken, _KINDS[kind])
    return found


_OTHERS = {"VALIDATION": "pictures for validation are data.params.validation, one recipe"}
_KINDS = {"STANDARD": None, "PRIOR_PREDICTION": "prior"}


def _concept(found: Found, taken: Taken, kind: str | None) -> None:
    image, text = (Taken(taken(part, {}), f"{taken.where}.{part}") for part in ("image", "text"))
    sides = []
    if image("enable_resolution_override"):
        sides = [int(part.split("x")[0]) for part in image.text("resolution_override").split(",") if part.strip()]
    folder = taken.text("path")
    params = {
        "data_root": folder,
        "flip_p": 0.5 if image("enable_random_flip") else 0.0,
        "captions": _captions(found, text),
    }
    balancing, strategy = taken.number("balancing", 1), taken("balancing_strategy", "REPEATS")
    if strategy != "REPEATS":
        found.unread.append(
            f"{taken.where}.balancing: {balancing} {strategy} an epoch; say it as repeats or as a weight"
        )
        balancing = 1
    loss = taken.number("loss_weight", 1)
    said = {"repeats": None if balancing == 1 else balancing, "loss_weight": None if loss == 1 else loss}
    found.add(taken.text("name") or folder, params, sides, square=not sides, **said, kind=kind)
    found.unread += taken.left(*HARMLESS) + _switched_on(image, IMAGE) + _switched_on(text, ())


def _captions(found: Found, text: Taken) -> dict[str, Any]:
    source = text("prompt_source", "sample")
    if source != "sample":
        path = text.text("prompt_path")
        found.unread.append(
            f"{text.where}.prompt_source: {source!r} {path}; default_caption is one text for all pictures"
        )
    shuffles, drops = text("enable_tag_shuffling"), text("tag_dropout_enable")
    chance, separator = text.number("tag_dropout_probability"), str(text("tag_delimiter", ","))
    keep = int(text.number("keep_tags_count"))
    return {
        "several_captions": source == "sample",  # each line of a text file is a prompt of its own there
        "split_tags": separator if shuffles or drops else None,
        "shuffle_tag_p": 1.0 if shuffles else None,
        "tag_dropout_p": chance if drops else None,
        "keep_tags": keep if shuffles or drops else None,
    }


def _switched_on(part: Taken, known: Sequence[str]) -> list[str]:
    """Of augmentations only those that are on say something; their numbers go with them."""
    on: Mapping[str, Any] = {name: value for name, value in part.given.items() if name.startswith("enable_") and value}
    return [f"{part.where}.{name}: {value!r}" for name, value in on.items() if name not in (*known, *part.names)]
