"""Features of pictures, and of captions beside them, by an encoder in a folder on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor, nn

from lun.features.pretrained import (
    Purpose,
    device_of,
    load_model,
    load_processor,
    of_another_kind,
    on_device,
    read_config,
)

BATCH = 32
CLIP = Purpose("CLIP's embeddings", "--clip", "openai/clip-vit-large-patch14")
DINO = Purpose("DINO's features", "--dino", "facebook/dinov2-large")
OTHER = Purpose("features of pictures", "--features", "ORGANISATION/IMAGE-ENCODER")


class ImageEncoder:
    """Features (n, d) of pictures: what `AutoModel` of the folder calls its pooled output."""

    kind = "AutoModel"

    def __init__(self, folder: str, purpose: Purpose = OTHER, device: str | None = None) -> None:
        """Raises `Fault` MOD01, MOD02, MOD05 or DEV01 for what is no such encoder."""
        self.folder = Path(folder)
        self._require_kind(purpose)
        self.model: Any = load_model(self.kind, self.folder, device_of(device), "fp32", purpose)
        self.processor = load_processor("AutoImageProcessor", self.folder, purpose)

    def _require_kind(self, purpose: Purpose) -> None:
        """Raise `Fault` where the folder's `config.json` is of another kind of model."""

    @torch.inference_mode()
    def __call__(self, pictures: Sequence[Image]) -> Tensor:
        """(n, d) fp32 on the CPU, of pictures of any size, which the encoder's own processor resizes and cuts."""
        parts = []
        for start in range(0, len(pictures), BATCH):
            inputs = self.processor(images=list(pictures[start : start + BATCH]), return_tensors="pt")
            parts.append(self._features(on_device(inputs, self.model)["pixel_values"]).flatten(1).float().cpu())
        return torch.cat(parts)

    def _features(self, pixels: Tensor) -> Tensor:
        pooled: Tensor = self.model(pixel_values=pixels).pooler_output
        return pooled


class DinoEncoder(ImageEncoder):
    """The class token of DINOv2 or DINOv3 after its last norm (Oquab et al. 2023, arXiv 2304.07193)."""

    def __init__(self, folder: str, purpose: Purpose = DINO, device: str | None = None) -> None:
        super().__init__(folder, purpose, device)

    def _require_kind(self, purpose: Purpose) -> None:
        config = read_config(self.folder, purpose)
        if not str(config.get("model_type", "")).startswith("dino"):
            raise of_another_kind(self.folder, config, purpose)


class ClipEncoder(ImageEncoder):
    """Embeddings of length 1 of pictures and of captions, which can be compared (Radford et al. 2021)."""

    kind = "CLIPModel"

    def __init__(self, folder: str, purpose: Purpose = CLIP, device: str | None = None) -> None:
        super().__init__(folder, purpose, device)
        self.tokenizer = load_processor("AutoTokenizer", self.folder, purpose)

    def _features(self, pixels: Tensor) -> Tensor:
        seen = self.model.vision_model(pixel_values=pixels).pooler_output
        return nn.functional.normalize(self.model.visual_projection(seen).float(), dim=-1)

    @torch.inference_mode()
    def texts(self, captions: Sequence[str]) -> Tensor:
        """(n, d) of captions, cut off where the encoder has no more places."""
        most = self.model.config.text_config.max_position_embeddings
        parts = []
        for start in range(0, len(captions), BATCH):
            words = self.tokenizer(
                list(captions[start : start + BATCH]),
                **{"return_tensors": "pt", "padding": True, "truncation": True, "max_length": most},
            )
            inputs = on_device({name: words[name] for name in ("input_ids", "attention_mask")}, self.model)
            embedded = self.model.text_projection(self.model.text_model(**inputs).pooler_output)
            parts.append(nn.functional.normalize(embedded.float(), dim=-1).cpu())
        return torch.cat(parts)
