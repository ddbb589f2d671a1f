"""A network of all kinds of parameters, steps that move it, and what an average of it holds."""

import torch
from torch import Tensor, nn

from ldm.ema.lit_ema import LitEma


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.GroupNorm(1, 3), nn.Linear(3, 4)).to(dtype)


@torch.no_grad()
def train(model: nn.Module, seed: int) -> None:
    """A stand-in for one optimizer step."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator).to(parameter.dtype))


def flat(ema: LitEma, track: str = "ema") -> Tensor:
    """The memory of one of the averages."""
    shadow = ema.tracks()[track].shadow
    assert shadow is not None
    return shadow.flat


def weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def one_number(value: float, dtype: torch.dtype = torch.float32) -> tuple[dict[str, nn.Parameter], nn.Parameter]:
    """Four weights of the same value, by name and as they are."""
    parameter = nn.Parameter(torch.full((4,), value, dtype=dtype))
    return {"w": parameter}, parameter
