"""Key names of CLIP's text encoder, which transformers has and has not put below `text_model` over the years."""

from collections.abc import Iterable

BELOW = "text_model."


def folder_clip_names(keys: Iterable[str]) -> dict[str, str]:
    """{key in folders that are meant for every version of transformers: transformers' key of today}."""
    return {key if key.startswith(BELOW) else BELOW + key: key for key in keys}


def compvis_clip_names(keys: Iterable[str]) -> dict[str, str]:
    """{transformers' key of today: CompVis' key}."""
    return {key: f"transformer.{name}" for name, key in folder_clip_names(keys).items()}
