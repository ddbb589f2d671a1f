"""SimpleTuner's multidatabackend JSON: a list of backends, some of which are caches."""

from collections.abc import Sequence
from typing import Any

from lun.migrate.foreign import Found, Taken

CACHES = ("text_embeds", "image_embeds")
HARMLESS = (
    *("id", "dataset_type", "default", "disabled", "cache_dir", "cache_dir_vae", "cache_dir_conditioning"),
    *("metadata_backend", "skip_file_discovery", "preserve_data_backend_cache", "vae_cache_clear_each_epoch"),
)


def read(content: Sequence[Any]) -> Found:
    """The backends with pictures that are on. Raises `Fault` CFG02 for what is no such file."""
    found = Found()
    backends = [Taken(one, str(number)) for number, one in enumerate(content)]
    for taken in backends:
        kind = taken("dataset_type", "image")
        if taken("disabled") or taken("disable") or kind in CACHES:
            continue
        if kind != "image" or taken("type", "local") != "local":
            found.unread.append(f"{taken.where}: {kind} on {taken('type', 'local')}; local pictures are read")
            continue
        _backend(found, taken)
    _all_or_none(found)
    return found


def _backend(found: Found, taken: Taken) -> None:
    resolution, unit = taken.number("resolution", 1), str(taken("resolution_type", "pixel_area"))
    side = round((resolution * 2**20) ** 0.5 / 64) * 64 if unit == "area" else int(resolution)
    square = bool(taken("crop")) and taken("crop_aspect", "square") == "square"
    style = taken("crop_style", "center") if taken("crop") else "center"
    if style not in ("center", "centre", "random"):
        found.unread.append(f"{taken.where}.crop_style: {style!r}; pictures are cut in their middle")
    prompt, strategy = taken.text("instance_prompt"), taken("caption_strategy", "textfile")
    prepends = bool(taken("prepend_instance_prompt"))
    params = {
        "data_root": taken.text("instance_data_dir"),
        "default_caption": prompt if strategy == "instanceprompt" else None,
        "limit_images": taken("max_num_samples"),
        "flip_p": 0.0,
        "crop": "random" if style == "random" else None,
        "captions": {"prefix": f"{prompt} " if prepends and prompt else None},
    }
    if strategy not in ("textfile", "instanceprompt"):
        found.unread.append(
            f"{taken.where}.caption_strategy: {strategy!r}; captions come from text files or descriptions"
        )
    if least := taken.number("minimum_image_size"):
        found.unread.append(f"{taken.where}.minimum_image_size: {least}; metadata_params.min_size, in pixels")
    times, share = taken.number("repeats") + 1, taken("probability")  # 0 there means that a picture is read once
    often = {"weight": taken.number("probability")} if share is not None else {"repeats": None if times == 1 else times}
    said: dict[str, Any] = {**often, "kind": "prior" if taken("is_regularisation_data") else None}
    if share is not None and times != 1:
        found.unread.append(f"{taken.where}.repeats: {times - 1}; probability says how often the set is read")
    found.add(taken.text("id") or params["data_root"], params, [side], square, **said)
    found.unread += taken.left(*HARMLESS)


def _all_or_none(found: Found) -> None:
    """Without a probability a backend has 1 there."""
    if any("weight" in one for one in found.sets.values()):
        for name, one in found.sets.items():
            if "weight" not in one:
                if (times := one.pop("repeats", 1)) != 1:
                    found.unread.append(f"{name}: repeats {times}; others have a probability, so that it has 1")
                one["weight"] = 1
