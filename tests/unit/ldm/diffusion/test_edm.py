"""EDM's levels: the paper's preconditioning in closed form, its law, and what sampling makes of an exact network."""

import math

import pytest
import torch
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.edm import EDMPath
from ldm.diffusion.objective import Objective
from ldm.diffusion.path import column, corrupt, levels
from ldm.diffusion.prediction import target, x0_from
from ldm.diffusion.sampling.sampler import Scheduler, sample
from ldm.diffusion.timesteps import LogitNormal, LogNormal, Range, Stratified, UniformTimesteps
from ldm.diffusion.weighting import squared_error_ratio
from ldm.errors import Fault

PATHS = [EDMPath(), EDMPath(sigma_data=1.0, sigma_max=120.0, spacing="exponential")]
X0 = torch.linspace(-1, 1, 3 * 2 * 4 * 4).reshape(3, 2, 4, 4)
COND = Conditioning()


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_target_and_x0_are_those_of_the_paper_in_its_own_units(path: EDMPath) -> None:
    """Table 1 and eq. 7-8: D = c_skip y + c_out F(c_in y, ln(t) / 4), F's target (y_0 - c_skip y) / c_out."""
    t = torch.tensor([path.sigma_min, 0.7, path.sigma_max]).double()
    power = t**2 + path.sigma_data**2
    c_skip, c_out = path.sigma_data**2 / power, t * path.sigma_data / power.sqrt()
    noise = torch.randn(X0.shape, generator=torch.Generator().manual_seed(0)).double()
    data = path.sigma_data * X0.double()
    y = data + column(t, X0) * noise
    wanted = (data - column(c_skip, X0) * y) / column(c_out, X0)
    alpha, sigma = path.coefficients(t)
    x_t = corrupt(X0.double(), noise, alpha, sigma)
    torch.testing.assert_close(x_t, y / column(power.sqrt(), X0))
    torch.testing.assert_close(target("edm", X0.double(), noise, alpha, sigma), wanted)
    torch.testing.assert_close(target("v", X0.double(), noise, alpha, sigma), -wanted)
    torch.testing.assert_close(x0_from("edm", wanted, x_t, alpha, sigma), X0.double(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(squared_error_ratio(alpha, sigma, "edm"), (path.sigma_data / c_out) ** 2)
    torch.testing.assert_close(path.clock(t.float()), (t.log() / 4).float())


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_level_is_found_again_by_its_log_snr_and_never_beyond_the_ends(path: EDMPath) -> None:
    t = levels(path)
    assert (t[-1].item(), len(t)) == (pytest.approx(path.sigma_max), 1000) and (t.diff() > 0).all()
    alpha, sigma = path.coefficients(t)
    torch.testing.assert_close(path.log_snr(t).float(), 2 * (alpha / sigma).log())
    torch.testing.assert_close(path.at_log_snr(path.log_snr(t)), t)
    ends = path.at_log_snr(torch.tensor([-math.inf, math.inf], dtype=torch.float64))
    torch.testing.assert_close(ends, torch.tensor([path.sigma_max, path.sigma_min]))


@pytest.mark.parametrize("law", [UniformTimesteps(), Range(200, 800), LogNormal(), Stratified(4, LogNormal())], ids=str)
def test_every_law_draws_levels_of_the_path(law: UniformTimesteps | Range | LogNormal | Stratified) -> None:
    path = EDMPath()
    t = law(BatchDraws(0, range(500)), path, X0.shape[1:])
    assert t.dtype == torch.float32 and t.min() >= path.sigma_min and t.max() <= path.sigma_max
    assert len(set(t.tolist())) > 450


def test_the_papers_law_is_normal_in_ln_sigma_and_the_logit_normal_one_for_unit_variance() -> None:
    u = torch.tensor([0.1, 0.5, 0.9]).double()
    t = LogNormal().quantile(u, EDMPath(), (1,))
    torch.testing.assert_close(t.double().log(), -1.2 + 1.2 * torch.special.ndtri(1 - u))
    same = LogNormal(0.3, 0.7, sigma_data=1.0).log_snr(u, EDMPath(), (1,))
    assert torch.equal(same, LogitNormal(0.3, 0.7).log_snr(u, EDMPath(), (1,)))


@pytest.mark.parametrize("scheduler", ["ddim", "dpmpp"])
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_an_exact_network_brings_noise_to_data_of_unit_variance(path: EDMPath, scheduler: Scheduler) -> None:
    """Of normal data with mean 0 and variance 1, E[F | x_t] is 0 at every level: samples are as wide as the noise."""

    def exact(x_t: Tensor, clock: Tensor, cond: Conditioning) -> Tensor:
        return torch.zeros_like(x_t)

    noise = torch.tensor([[-1.0], [0.5]])
    drawn = sample(exact, path, "edm", COND, None, noise, steps=40, scheduler=scheduler)
    torch.testing.assert_close(drawn / drawn[0], noise / noise[0])
    assert abs(drawn[0].item()) == pytest.approx(1.0, abs=0.1)


def test_the_network_is_told_a_quarter_of_ln_sigma_in_float32_whatever_it_computes_in() -> None:
    seen: list[Tensor] = []

    def network(x_t: Tensor, clock: Tensor, cond: Conditioning) -> Tensor:
        seen.extend((x_t, clock))
        return torch.zeros_like(x_t)

    objective = Objective(EDMPath(), "edm", LogNormal()).to(torch.bfloat16)
    losses = objective(network, X0.bfloat16(), COND, BatchDraws(5, [10, 11, 12]))
    assert seen[0].dtype == torch.bfloat16 and torch.equal(seen[1], losses.t.log() / 4)


@pytest.mark.parametrize(
    "wrong",
    [{"sigma_min": 80.0}, {"sigma_data": 0.0}, {"sigma_max": math.inf}, {"sigma_min": math.nan}, {"timesteps": 0}],
    ids=str,
)
def test_levels_that_are_none_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(Fault) as fault:
        EDMPath(**wrong)  # type: ignore[arg-type]
    assert fault.value.id in ("CFG03", "CFG08")
