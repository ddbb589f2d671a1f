"""Scores: an aesthetic head on a picture's CLIP embedding, or a classifier of pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.files.read import read_state_dict
from ldm.files.state import State
from ldm.shell import quoted
from lun.features.pretrained import DType, Purpose, device_of, load_model, load_processor, on_device


class Scorer:
    """One number for each picture.

    model  the folder of a CLIP model (with `head`), or of one that `AutoModelForImageClassification` reads
    head   a file with linear layers, one after the other, over the normalised embedding: LAION's aesthetic predictors
           (github.com/LAION-AI/aesthetic-predictor, github.com/christophschuhmann/improved-aesthetic-predictor)
    label  of a classifier with several classes, the one whose probability is the score; one of a single output gives
           that
    """

    columns = ("score",)

    def __init__(
        self,
        model: str,
        device: str | None = None,
        dtype: DType = "fp32",
        head: str | None = None,
        label: str | None = None,
    ) -> None:
        if head is not None and label is not None:
            raise Fault("CLI03", "a head has no classes, so that --param label has no effect", where="--param label")
        at = device_of(device)
        kind = "AutoModelForImageClassification" if head is None else "CLIPModel"
        what = "scores (a classifier of pictures; of CLIP with --param head=FILE)" if head is None else "a head on CLIP"
        loaded: Any = load_model(kind, Path(model), at, dtype, Purpose(what))
        self.model = loaded
        self.processor = load_processor("AutoImageProcessor", Path(model), Purpose("pictures"))
        self.head = None if head is None else linear_layers(Path(head), loaded.config.projection_dim).to(at)
        self.label = self._number(label) if head is None else None

    def _number(self, label: str | None) -> int | None:
        """The place of `label` among the classes; None for a model of one output."""
        names = [str(name) for _, name in sorted(self.model.config.id2label.items(), key=lambda pair: int(pair[0]))]
        if len(names) == 1:
            if label is not None:
                raise Fault("CLI03", "the model has one output, so that label has no effect", where="--param label")
            return None
        if label not in names:
            what = "the model has several classes" if label is None else f"the model has no class {label}"
            fix = "one of " + ", ".join("--param " + quoted(f"label={json.dumps(name)}") for name in names[:12])
            raise Fault("CLI03", what, where="--param label", fix=fix)
        return names.index(label)

    @torch.inference_mode()
    def __call__(self, pictures: Sequence[Image]) -> list[dict[str, Any]]:
        inputs = on_device(self.processor(images=list(pictures), return_tensors="pt"), self.model)
        if self.head is not None:
            scores = self.head(self._embeddings(inputs["pixel_values"]))[:, 0]
        else:
            logits = self.model(**inputs).logits.float()
            scores = logits[:, 0] if self.label is None else logits.softmax(1)[:, self.label]
        return [{"score": round(score, 5)} for score in scores.tolist()]

    def _embeddings(self, pixels: Tensor) -> Tensor:
        """(b, width) of length 1"""
        seen = self.model.vision_model(pixel_values=pixels).pooler_output
        return nn.functional.normalize(self.model.visual_projection(seen).float(), dim=-1)


def linear_layers(file: Path, width: int) -> nn.Sequential:
    """The layers of a file in the order of their numbers, without anything between, as those predictors have them.

    Raises `Fault` MOD02 where they do not take `width` numbers one after the other and give one; those of
    `ldm.files.read` for what is no weights file, or holds code.
    """
    state = read_state_dict(file)
    names = sorted((key.rpartition(".")[0] for key in state if key.split(".")[-1] == "weight"), key=_by_numbers)
    prefixes = [f"{name}." if name else "" for name in names]
    if odd := [prefix for prefix in prefixes if not _is_linear(state, prefix)]:
        raise Fault(
            "MOD02", f"{file} is no head for this model", where="--param head", why=f"{odd[0]}weight is no matrix"
        )
    layers = nn.Sequential(*(_linear(state, prefix) for prefix in prefixes))
    widths = [width, *(layer.out_features for layer in layers)]
    if not names or widths[-1] != 1 or any(layer.in_features != n for layer, n in zip(layers, widths, strict=False)):
        shapes = ", ".join(f"{layer.in_features} to {layer.out_features}" for layer in layers) or "no layers"
        why = f"it has {shapes}; the model gives {width} numbers, and a score is one"
        raise Fault("MOD02", f"{file} is no head for this model", where="--param head", why=why)
    return layers.eval().requires_grad_(False)


def _is_linear(state: State, prefix: str) -> bool:
    weight, bias = state[f"{prefix}weight"], state.get(f"{prefix}bias")
    return weight.ndim == 2 and (bias is None or bias.shape == weight.shape[:1])


def _linear(state: State, prefix: str) -> nn.Linear:
    weight, bias = state[f"{prefix}weight"], state.get(f"{prefix}bias")
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
    layer.load_state_dict({"weight": weight.float()} | ({} if bias is None else {"bias": bias.float()}))
    return layer


def _by_numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]
