"""The convolutions of VGG16 (Simonyan and Zisserman 2014, arXiv 1409.1556), as a fixed extractor of features."""

from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ldm.diffusion.draws import key
from ldm.errors import Fault
from ldm.files.read import read_state_dict

# torchvision's numbers of the convolutions, stage by stage, with the channels that they give.
STAGES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((0, 2), 64),
    ((5, 7), 128),
    ((10, 12, 14), 256),
    ((17, 19, 21), 512),
    ((24, 26, 28), 512),
)
PUBLIC_FILE = "vgg16-397923af.pth"


class VGG16Features(nn.Module):
    """The five feature maps at the ends of VGG16's stages, before pooling, of (b, 3, h, w); sides from 16 pixels on.

    The weights are buffers that no checkpoint holds: they never change, and they are in the file that they came from.
    Without `path` they are random, the same each time.
    """

    def __init__(self, path: str | None = None) -> None:
        super().__init__()
        weights = read_vgg(path) if path else random_vgg()
        for name, tensor in weights.items():
            self.register_buffer(name.replace(".", "_"), tensor, persistent=False)

    def forward(self, x: Tensor) -> list[Tensor]:
        features: list[Tensor] = []
        for numbers, _ in STAGES:
            x = F.max_pool2d(x, 2) if features else x
            for number in numbers:
                weight, bias = (getattr(self, f"features_{number}_{kind}") for kind in ("weight", "bias"))
                x = F.relu(F.conv2d(x, weight, bias, padding=1))
            features.append(x)
        return features


def shapes() -> dict[str, tuple[int, ...]]:
    """{torchvision's name: shape} of the 26 tensors."""
    numbers = [(number, width) for stage, width in STAGES for number in stage]
    widths = [3, *(width for _, width in numbers)]
    shapes: dict[str, tuple[int, ...]] = {}
    for (number, _), (before, after) in zip(numbers, pairwise(widths), strict=True):
        shapes |= {f"features.{number}.weight": (after, before, 3, 3), f"features.{number}.bias": (after,)}
    return shapes


def random_vgg() -> dict[str, Tensor]:
    """Weights that keep the size of activations (He et al. 2015), from a fixed seed."""
    generator = torch.Generator().manual_seed(key(0, "random VGG16"))
    weights = {}
    for name, shape in shapes().items():
        scale = (2 / (9 * shape[1])) ** 0.5 if len(shape) == 4 else 0.0
        weights[name] = scale * torch.randn(shape, generator=generator, device="cpu")
    return weights


def read_vgg(path: str) -> dict[str, Tensor]:
    """The convolutions' weights from a .safetensors or torch file with torchvision's names; `classifier.*` is left.

    Raises `Fault` MOD01 (no such file), MOD02 (no weights file) or MOD03 (weights of something else).
    """
    state = read_state_dict(Path(path))
    wrong = [name for name, shape in shapes().items() if name not in state or tuple(state[name].shape) != shape]
    if wrong:
        raise Fault(
            "MOD03",
            f"{path} does not hold the features of VGG16",
            where="lossconfig.params.perceptual_path",
            why=f"{len(wrong)} of {len(shapes())} tensors are missing or of another shape, the first {wrong[0]}",
            fix=f"torchvision's {PUBLIC_FILE}, whose names are features.0.weight, features.0.bias, ...",
        )
    return {name: state[name].to(torch.float32, copy=True) for name in shapes()}
