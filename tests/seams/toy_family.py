"""A family of one's own: another network, other names of tensors, rectified flow; as a user's module in `lun/local`."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.objective import Objective
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.families.facts import Facts, Unconditional
from ldm.families.record import Denoiser, Family, Guess, Latent, Spec, Variant
from ldm.families.registry import register
from ldm.files.state import State

NAMES = {"enter": "toy.in", "told": "toy.cond", "leave": "toy.out"}


class ToyNetwork(nn.Module):
    """Two convolutions, moved by the time and by the mean of the context."""

    def __init__(self, width: int, channels: int, context: int, from_scratch: bool = False) -> None:
        super().__init__()
        self.from_scratch = from_scratch
        self.loaded_from: str | None = None
        self.enter = nn.Conv2d(channels, width, 3, padding=1)
        self.told = nn.Linear(context + 1, width)
        self.leave = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        """(b, c, h, w) of x_t (b, c, h, w), t (b,) and a context (b, tokens, dim)."""
        assert cond.context is not None
        told = torch.cat([t.float()[:, None] / 1000, cond.context.mean(dim=1)], dim=1)
        return self.leave(torch.relu(self.enter(x_t) + self.told(told)[:, :, None, None]))

    def to_disk(self, state: State) -> State:
        return {f"{NAMES.get(key.split('.')[0], key)}.{key.split('.')[1]}": value for key, value in state.items()}

    def from_disk(self, state: State) -> State:
        own = {theirs: mine for mine, theirs in NAMES.items()}
        return {f"{own.get(key.rpartition('.')[0], key)}.{key.split('.')[-1]}": value for key, value in state.items()}


def settings(state: State) -> dict[str, Any]:
    width, channels = state["toy.in.weight"].shape[:2]
    return {"width": width, "channels": channels, "context": state["toy.cond.weight"].shape[1] - 1}


def conditioner(
    state: State, configs: Sequence[Mapping[str, Any]], unconditional: Unconditional | None
) -> dict[str, Any]:
    buckets, dim = state["embedding.weight"].shape
    params = {"dim": dim, "buckets": buckets, "max_length": state["position"].shape[0]}
    return {"target": "ldm.modules.encoders.words.HashedWordEmbedder", "params": params}


def objective(facts: Facts) -> Objective:
    return Objective(RectifiedFlow(), "flow")


def recognises(state: State) -> bool:
    return "toy.in.weight" in state


TOY = register(
    Family(
        name="toy",
        title="Toy Diffusion",
        variants=(Variant("Toy Diffusion", "two convolutions", recognises, spec=Spec("toy-diffusion-v1", 8)),),
        built_like=recognises,
        network=Denoiser(
            recognises=recognises,
            target="lun.local.toy_family.ToyNetwork",
            settings=settings,
            in_channels=lambda state: int(state["toy.in.weight"].shape[1]),
            is_public=recognises,
        ),
        latent=Latent(scale=1.0, sample_size=8, architecture="toy-diffusion-v1/vae"),
        encoders=(),
        conditioner=conditioner,
        objective=objective,
        guess=Guess("flow_prediction"),
    )
)
