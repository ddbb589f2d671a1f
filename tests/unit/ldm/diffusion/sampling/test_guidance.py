"""Guidance: its rescaling in closed form, its interval, and that neither depends on how a network is spelt."""

from typing import Any

import pytest
import torch
from diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion import rescale_noise_cfg
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.edm import EDMPath
from ldm.diffusion.path import DDPMPath, Path, column, levels
from ldm.diffusion.prediction import PAIRS, Prediction, target
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.diffusion.sampling.guidance import Guidance, guided, rescaled
from ldm.diffusion.sampling.sampler import sample
from ldm.errors import Fault

NOISE = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
COND, UNCOND = (Conditioning(torch.full((2, 1, 1), value)) for value in (1.0, 0.0))
SHORT = {"timesteps": 100}
PATHS: list[Path] = [DDPMPath(100), RectifiedFlow(**SHORT), EDMPath(**SHORT)]  # type: ignore[arg-type]


class Spelt:
    """One model of x_0, any function of all that it is given, as networks of every prediction have it."""

    def __init__(self, path: Path, prediction: Prediction) -> None:
        self.path, self.prediction = path, prediction
        self.batches: list[int] = []
        named = levels(path)
        self.levels = {path.clock(t[None]).item(): t for t in named}

    def __call__(self, x_t: Tensor, clock: Tensor, cond: Conditioning) -> Tensor:
        assert cond.context is not None
        self.batches.append(len(x_t))
        alpha, sigma = self.path.coefficients(torch.stack([self.level(c) for c in clock.tolist()]))
        x0 = torch.tanh(x_t.roll(1, -1)) + cond.context[..., None] * x_t.roll(2, -2)
        noise = (x_t - column(alpha, x_t) * x0) / column(sigma, x_t)
        return target(self.prediction, x0, noise, alpha, sigma)

    def level(self, clock: float) -> Tensor:
        if isinstance(self.path, EDMPath):
            return torch.tensor(4 * clock).exp()
        return torch.tensor(clock / 100) if isinstance(self.path, RectifiedFlow) else torch.tensor(int(clock))


def test_the_spread_of_the_conditional_output_comes_back_in_the_share_that_is_asked_for() -> None:
    """Closed form of eq. 15 and 16, which diffusers has, too."""
    output, conditional = 3 * NOISE + 1, NOISE.flip(0)
    half = output * (0.5 * conditional.std((1, 2, 3)) / output.std((1, 2, 3)) + 0.5).view(2, 1, 1, 1)
    torch.testing.assert_close(rescaled(output, conditional, 0.5), half)
    torch.testing.assert_close(rescaled(output, conditional, 0.7), rescale_noise_cfg(output, conditional, 0.7))
    torch.testing.assert_close(rescaled(output, conditional, 1.0).std((1, 2, 3)), conditional.std((1, 2, 3)))
    assert torch.equal(rescaled(output, conditional, 0.0), output)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: type(path).__name__)
def test_a_rescaled_sample_is_the_same_whatever_the_network_predicts(path: Path) -> None:
    how: Any = {"steps": 4, "scheduler": "ddim", "guidance": Guidance(6.0, rescale=0.7, high=20.0)}
    known = [name for name in PAIRS if not (isinstance(path, RectifiedFlow) and name == "eps")]
    first, *others = (sample(Spelt(path, name), path, name, COND, UNCOND, NOISE, **how) for name in known)
    for other in others:
        torch.testing.assert_close(other, first, rtol=2e-4, atol=2e-4)
    plain = sample(Spelt(path, "v"), path, "v", COND, UNCOND, NOISE, **{**how, "guidance": Guidance(6.0, high=20.0)})
    assert first.std() < 0.95 * plain.std()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: type(path).__name__)
def test_outside_of_its_levels_there_is_no_guidance_and_one_call_for_the_caption_alone(path: Path) -> None:
    network = Spelt(path, "v")
    sample(
        network, path, "v", COND, UNCOND, NOISE, steps=8, guidance=Guidance(3.0, low=0.3, high=2.0), scheduler="ddim"
    )
    alpha, sigma = path.coefficients(path.grid(8)[:-1])
    within = (sigma / alpha > 0.3) & (sigma / alpha <= 2.0)
    assert network.batches == torch.where(within, 4, 2).tolist() and within.any() and not within.all()


def test_the_ends_of_the_interval_are_the_paper_s() -> None:
    one = torch.ones(1)
    assert [Guidance(2.0, low=1.0, high=2.0).holds_at(one, ratio * one) for ratio in (1.0, 1.5, 2.0, 2.1)] == [
        False,
        True,
        True,
        False,
    ]
    assert not Guidance(2.0, high=2.0).holds_at(0 * one, one) and Guidance(2.0, low=2.0).holds_at(0 * one, one)


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"scale": -1.0}, "CFG03"),
        ({"scale": float("nan")}, "CFG03"),
        ({"scale": 2.0, "rescale": 1.5}, "CFG03"),
        ({"scale": 2.0, "low": 2.0, "high": 1.0}, "CFG03"),
        ({"scale": 2.0, "low": float("nan")}, "CFG03"),
        ({"scale": 2.0, "high": float("nan")}, "CFG03"),
        ({"rescale": 0.5}, "CFG08"),
        ({"high": 2.0}, "CFG08"),
    ],
    ids=str,
)
def test_what_is_no_guidance_is_refused(wrong: dict[str, float], fault: str) -> None:
    with pytest.raises(Fault) as caught:
        Guidance(**wrong)
    assert caught.value.id == fault


def test_no_guidance_leaves_the_networks_own_output() -> None:
    network = Spelt(PATHS[1], "flow")
    predict = guided(network, COND, UNCOND, Guidance(), PATHS[1], "flow")
    predict(NOISE, torch.tensor([0.5, 0.5]))
    assert network.batches == [2]
