"""What a cache of moments takes on disk, shown before it is filled."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from ldm.admission import admitted
from ldm.util import Recipe
from lun.data.cache.cache_settings import DTYPES, Cache
from lun.data.sets.set_settings import is_sets

GIB = 2**30


def describe_moments(config: Mapping[str, Any], images: int) -> str | None:
    """`at most 84 moments (42 images x 2 variants), 0.01 GiB at 512 pixels`; None where a config asks for no cache.

    images  examples of an epoch, repeats counted, each of which is kept at most once
    """
    data = config["data"]["params"]
    cache = Cache.read(data.get("cache"))
    if cache is None:
        return None
    recipes = [one for one in data["train"]["sets"].values() if one] if is_sets(data["train"]) else [data["train"]]
    times, name = max(_ways(one, cache.variants) for one in recipes)
    described = f"at most {images * times:,} moments ({images:,} images x {times} {name})"
    side = _largest(recipes, data.get("buckets"))
    bytes_ = _bytes_of(config["model"].get("params") or {}, side, DTYPES[cache.dtype].itemsize) if side else None
    return described if bytes_ is None else f"{described}, {images * times * bytes_ / GIB:.2f} GiB at {side} pixels"


def _ways(recipe: Recipe, variants: int) -> tuple[int, str]:
    """How often each picture of a set is kept, and as what."""
    kind, params = admitted(recipe["target"]), recipe.get("params") or {}
    if hasattr(kind, "varies") and kind.varies(params):
        return variants, "variants"
    mirrored = 0 < params.get("flip_p", 0.5) < 1
    return (2, "ways round") if mirrored else (1, "way round")


def _largest(recipes: Sequence[Recipe], buckets: Mapping[str, Any] | None) -> int | None:
    """Sides of the largest square that is read; None where pictures keep their sizes."""
    sides = [(one.get("params") or {}).get("size", 512) for one in recipes]
    if buckets and buckets.get("resolutions"):
        sides = list(buckets["resolutions"])
    return None if None in sides else max(map(int, sides))


def _bytes_of(model: Mapping[str, Any], side: int, number: int) -> int | None:
    """Of the moments of one picture; None of a first stage that does not give its shape."""
    params = (model.get("first_stage_config") or {}).get("params") or {}
    if "embed_dim" not in params or "ch_mult" not in (params.get("ddconfig") or {}):
        return None
    latents = ceil(side / 2 ** (len(params["ddconfig"]["ch_mult"]) - 1))
    return int(2 * params["embed_dim"] * latents**2 * number)
