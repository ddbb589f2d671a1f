"""Masks by CLIPSeg (Lueddecke and Ecker 2022, arXiv:2112.10003): where a picture shows what a text says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from ldm.errors import Fault
from lun.features.pretrained import DType, Purpose, device_of, load_model, load_processor, on_device


class Masker:
    """White where `text` is, black elsewhere, soft between; bilinear from the model's 352 x 352 to the picture's size.

    model      the folder of a `CLIPSegForImageSegmentation`
    text       what counts in the loss, such as `a person`
    threshold  a probability from which on all is white, and below it black; None leaves masks soft
    floor      what black is raised to, so that the rest counts a little; 0 to 1
    """

    columns = ("mask",)

    def __init__(
        self,
        model: str,
        text: str,
        device: str | None = None,
        dtype: DType = "fp32",
        threshold: float | None = None,
        floor: float = 0.0,
    ) -> None:
        for name, value in (("threshold", threshold), ("floor", floor)):
            if value is not None and not 0 <= value <= 1:
                raise Fault("CLI03", f"param {name} cannot be {value}", why="it takes a number from 0 to 1")
        kind, purpose = (
            "CLIPSegForImageSegmentation",
            Purpose("masks (CLIPSeg)", published="CIDAS/clipseg-rd64-refined"),
        )
        self.model: Any = load_model(kind, Path(model), device_of(device), dtype, purpose)
        self.processor = load_processor("AutoProcessor", Path(model), purpose)
        self.text, self.threshold, self.floor = text, threshold, floor

    @torch.inference_mode()
    def __call__(self, pictures: Sequence[Image.Image]) -> list[dict[str, Any]]:
        texts = [self.text] * len(pictures)
        inputs = self.processor(text=texts, images=list(pictures), padding=True, return_tensors="pt")
        found = self.model(**on_device(inputs, self.model)).logits.float().sigmoid()
        if self.threshold is not None:
            found = (found >= self.threshold).float()
        grey = (self.floor + (1 - self.floor) * found).mul(255).round().byte().cpu()
        masks = [Image.fromarray(one.numpy()) for one in grey.view(len(pictures), *grey.shape[-2:])]
        return [
            {"mask": mask.resize(picture.size, Image.Resampling.BILINEAR)}
            for mask, picture in zip(masks, pictures, strict=True)
        ]
