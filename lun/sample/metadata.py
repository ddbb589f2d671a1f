"""A picture's file, and what it says about how it was made, in the text chunks that web UIs read and write."""

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from torch import Tensor

from lun.previews.grid import to_uint8, write
from lun.sample.opened_model import SampledModel
from lun.sample.pictures import Picture

SAMPLERS = {"ddim": "DDIM", "euler": "Euler", "dpmpp": "DPM++ 2M"}


def parameters(picture: Picture, source: SampledModel) -> str:
    """The text that A1111's web UI stores under `parameters`: prompt, negative prompt, then settings on one line."""
    settings = {
        "Steps": picture.steps,
        "Sampler": SAMPLERS[picture.scheduler],
        "CFG scale": f"{picture.guidance:g}",
        **({"CFG Rescale": f"{picture.guidance_rescale:g}"} if picture.guidance_rescale else {}),
        "Seed": picture.seed,
        "Size": f"{picture.width}x{picture.height}",
        "Model hash": source.sha256[:10],
        "Model": source.name,
        "Version": f"lun {version('lun')}",
    }
    negative = [f"Negative prompt: {picture.negative}"] if picture.negative else []
    return "\n".join([picture.prompt, *negative, ", ".join(f"{name}: {_quoted(v)}" for name, v in settings.items())])


def chunks(picture: Picture, source: SampledModel, dtype: str) -> PngInfo:
    """The text chunks of a picture's file: `parameters`, and under `lun` all of it as JSON."""
    info = PngInfo()
    info.add_text("parameters", parameters(picture, source))
    settings = {
        **asdict(picture),
        "weights": source.weights,
        "sha256": source.sha256,
        "dtype": dtype,
        "adapters": source.adapters,
        "embeddings": source.embeddings,
    }
    info.add_text("lun", json.dumps(settings))
    return info


def write_picture(picture: Picture, values: Tensor, source: SampledModel, dtype: str, path: Path) -> Image.Image:
    """One picture (3, h, w) in [-1, 1] as a PNG that says how it was made."""
    image = Image.fromarray(to_uint8(values[None])[0])
    write(image, path, pnginfo=chunks(picture, source, dtype))
    return image


def _quoted(value: Any) -> str:
    """In quotes where the text would not end where it ends."""
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if {",", ":", "\n"} & set(text) else text
