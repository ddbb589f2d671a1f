"""LPIPS, a distance of pictures as people see it (Zhang et al. 2018, arXiv 1801.03924), without torchvision."""

from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.missing_packages import install_line
from ldm.modules.losses.vgg import PUBLIC_FILE, VGG16Features
from ldm.shell import quoted

SHIFT = (-0.030, -0.088, -0.188)
SCALE = (0.458, 0.448, 0.450)
SMALLEST = 16
"""The least side of a picture, in pixels, that VGG16 halves four times."""
HEADS = ("functional", "image", "lpips_models", "vgg.pth")


class LPIPS(nn.Module):
    """Weighted squared distances of normalised VGG16 features, summed over stages: (b, 3, h, w) twice to (b,).

    Computed in float32 whatever autocast says: features of squares up to 12 overflow float16, and what keeps the
    normalisation from dividing by zero is zero there. Pictures lie in [-1, 1].

    `Fault` CFG08 for pictures of which the last stage leaves nothing.

    path  weights of VGG16 (see `read_vgg`); None for random features, which measure textures only roughly
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, path: str | None) -> None:
        super().__init__()
        self.features = VGG16Features(path)
        for number, head in enumerate(read_heads()):
            self.register_buffer(f"head_{number}", head, persistent=False)
        self.register_buffer("shift", torch.tensor(SHIFT).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(SCALE).view(1, 3, 1, 1), persistent=False)

    def forward(self, real: Tensor, made: Tensor) -> Tensor:
        require_room(real)
        with torch.autocast(made.device.type, enabled=False):
            with torch.set_grad_enabled(real.requires_grad and torch.is_grad_enabled()):
                wanted = [_normalised(map) for map in self._features(real)]
            features = [_normalised(map) for map in self._features(made)]
            total = torch.zeros(len(made), device=made.device)
            for number, (a, b) in enumerate(zip(wanted, features, strict=True)):
                total = total + (getattr(self, f"head_{number}") * (a - b).square()).sum(dim=1).mean(dim=(1, 2))
            return total

    def _features(self, pictures: Tensor) -> list[Tensor]:
        return self.features((pictures.float() - self.shift) / self.scale)


def require_room(pictures: Tensor) -> None:
    """Raise `Fault` CFG08 for pictures (b, 3, h, w) that are too small to be compared."""
    height, width = pictures.shape[-2:]
    if min(height, width) < SMALLEST:
        raise Fault(
            "CFG08",
            f"pictures of {width} x {height} pixels are too small for the perceptual loss",
            where="model.params.lossconfig.params.perceptual_weight",
            why=f"VGG16 halves them four times: a side needs at least {SMALLEST} pixels",
            fix="larger pictures, or perceptual_weight: 0",
        )


def _normalised(features: Tensor) -> Tensor:
    """Unit length over channels. The small number is within the root: outside, the gradient at zero would be NaN."""
    return features / (1e-8 + features.square().sum(dim=1, keepdim=True)).sqrt()


def read_heads() -> list[Tensor]:
    """The five learned weightings of channels, each (1, c, 1, 1), that ship with torchmetrics. `Fault` DEP01 if not."""
    spec = find_spec("torchmetrics")
    folders = (spec.submodule_search_locations if spec else None) or ()
    files = [file for folder in folders if (file := Path(folder).joinpath(*HEADS)).is_file()]
    if not files:
        raise Fault(
            "DEP01",
            "torchmetrics does not hold the linear layers of LPIPS",
            why="no " + "/".join(("torchmetrics", *HEADS)),
            fix=install_line("torchmetrics"),
        )
    state = torch.load(files[0], map_location="cpu", weights_only=True)
    return [state[f"lin{number}.model.1.weight"] for number in range(5)]


def no_features() -> Fault:
    """MOD01: a perceptual loss was asked for and nothing says which features to compare."""
    cached = Path(torch.hub.get_dir()) / "checkpoints" / PUBLIC_FILE
    file = str(cached) if cached.is_file() else f"path/to/{PUBLIC_FILE}"
    setting = "model.params.lossconfig.params"
    return Fault(
        "MOD01",
        "the perceptual loss has no weights of VGG16",
        where=f"{setting}.perceptual_path",
        why=f"LPIPS compares features of VGG16; nothing is downloaded here, and torchvision publishes {PUBLIC_FILE}",
        fix=f"{quoted(f'{setting}.perceptual_path={file}')}\n"
        f"without it: {setting}.perceptual_weight=0, or to try things out {setting}.perceptual_features=random",
    )
