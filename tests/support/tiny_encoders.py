"""Image encoders as people have them for measuring, each of them tiny and random, in the files that publishers have."""

from pathlib import Path

import torch
import transformers
from support.tiny_annotators import _ENDS, _SQUARE, _TEXT, _VISION, SIDE, _published


def clip(folder: Path) -> Path:
    """CLIP with its tokenizer, of the words of `tiny_annotators`."""
    torch.manual_seed(0)
    config = transformers.CLIPConfig(text_config={**_TEXT, **_ENDS}, vision_config=_VISION, projection_dim=12)
    pictures = {"image_processor_type": "CLIPImageProcessor", "size": SIDE, "crop_size": SIDE}
    return _published(folder, transformers.CLIPModel(config), pictures, True)


def dino(folder: Path) -> Path:
    """DINOv2, as facebook has it."""
    torch.manual_seed(0)
    pictures = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": SIDE}, "crop_size": _SQUARE}
    return _published(folder, transformers.Dinov2Model(transformers.Dinov2Config(**_VISION)), pictures, False)


def vit(folder: Path) -> Path:
    """An image encoder that is neither."""
    torch.manual_seed(0)
    pictures = {"image_processor_type": "ViTImageProcessor", "size": _SQUARE}
    return _published(folder, transformers.ViTModel(transformers.ViTConfig(**_VISION)), pictures, False)
