"""Small data sets, and what a run left behind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

TINY = Path(__file__).parents[1] / "fixtures" / "tiny.yaml"
COLOURS = ("red", "green", "blue")


def make_pictures(root: Path, count: int, seed: int = 0) -> Path:
    """`count` random pictures of 8 x 8 pixels with captions, in the flat layout."""
    numbers = np.random.default_rng(seed)
    for folder in ("img", "txt"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for i in range(count):
        pixels = numbers.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / "img" / f"{i:03}.png")
        (root / "txt" / f"{i:03}.txt").write_text(f"{COLOURS[i % 3]} noise {i}\n")
    return root


def make_shapes(root: Path, sizes: Sequence[tuple[int, int]]) -> Path:
    """Random pictures of the given (width, height) with captions, every second with a mask."""
    numbers = np.random.default_rng(1)
    for folder in ("img", "txt", "mask"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for i, (width, height) in enumerate(sizes):
        pixels = numbers.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / "img" / f"{i:03}.png")
        (root / "txt" / f"{i:03}.txt").write_text(f"{COLOURS[i % 3]} noise {i}\n")
        if i % 2:
            Image.fromarray(pixels[..., 0]).save(root / "mask" / f"{i:03}.png")
    return root


def newest_run(logs: Path) -> Path:
    return (logs / "latest").resolve()


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    return found
