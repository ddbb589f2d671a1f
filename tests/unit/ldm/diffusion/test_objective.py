"""The objective: what the network is shown, what is compared, and which numbers come back."""

from collections.abc import Callable
from inspect import isabstract
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from ldm.diffusion import weighting as weighting_module
from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.edm import EDMPath
from ldm.diffusion.loss import Absolute
from ldm.diffusion.noise import Gaussian, NoiseLaw, Offset, Pyramid
from ldm.diffusion.objective import Objective
from ldm.diffusion.path import DDPMPath, Path, corrupt, levels
from ldm.diffusion.prediction import Prediction, target
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.diffusion.timesteps import Range
from ldm.diffusion.weighting import P2, Debiased, ErrorOfX0, MinSNR, SoftMinSNR, Uncertainty, Weighting, uniform
from ldm.errors import Fault

X0 = torch.linspace(-1, 1, 3 * 2 * 4 * 4).reshape(3, 2, 4, 4)
DRAWS = BatchDraws(5, [10, 11, 12])
COND = Conditioning()


class Recording(nn.Module):
    """Answers with a fixed multiple of its input and remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(0.5))

    def forward(self, x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        self.seen = x_t, t, cond
        return self.factor.to(x_t.dtype) * x_t


def test_the_network_is_shown_the_corrupted_input_its_timestep_and_the_conditioning() -> None:
    objective, network = Objective(DDPMPath(50)), Recording()
    losses = objective(network, X0, COND, DRAWS)
    x_t, t, cond = network.seen
    noise = Gaussian()(DRAWS, X0.shape[1:])
    assert torch.equal(x_t, corrupt(X0, noise, *objective.path.coefficients(t)))
    assert t.dtype == torch.int64
    assert torch.equal(losses.t, t)
    assert cond is COND


@pytest.mark.parametrize("prediction", ["eps", "v", "x0"])
def test_a_network_that_knows_the_answer_loses_nothing(prediction: Prediction) -> None:
    objective = Objective(DDPMPath(50), prediction)
    noise = Gaussian()(DRAWS, X0.shape[1:])

    def network(x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        return target(prediction, X0, noise, *objective.path.coefficients(t))

    losses = objective(network, X0, COND, DRAWS)
    assert losses.simple.tolist() == [0, 0, 0]
    assert losses.weighted.tolist() == [0, 0, 0]


def test_the_simple_loss_is_the_mean_squared_error_of_each_example() -> None:
    noise = Gaussian()(DRAWS, X0.shape[1:])
    losses = Objective(DDPMPath(50))(lambda x_t, t, cond: torch.zeros_like(x_t), X0, COND, DRAWS)
    torch.testing.assert_close(losses.simple, (noise**2).mean((1, 2, 3)))
    assert torch.equal(losses.weighted, losses.simple)


def test_another_loss_takes_the_place_of_the_squared_one() -> None:
    noise = Gaussian()(DRAWS, X0.shape[1:])
    objective = Objective(DDPMPath(50), loss=Absolute())
    losses = objective(lambda x_t, t, cond: torch.zeros_like(x_t), X0, COND, DRAWS)
    torch.testing.assert_close(losses.simple, noise.abs().mean((1, 2, 3)))


def test_the_weighting_of_the_noise_level_enters_the_weighted_loss_alone() -> None:
    plain = Objective(DDPMPath(50), "v")(Recording(), X0, COND, DRAWS)
    weighted = Objective(DDPMPath(50), "v", weighting=MinSNR(1.0))(Recording(), X0, COND, DRAWS)
    alpha, sigma = DDPMPath(50).coefficients(plain.t)
    assert torch.equal(weighted.simple, plain.simple)
    torch.testing.assert_close(weighted.weighted, plain.simple * (alpha**2 / sigma**2).clamp(max=1) * sigma**2)


class One(nn.Module):
    """A learned weight of a user's own, the same at every level."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(0.25))

    def forward(self, alpha: Tensor, sigma: Tensor, prediction: Prediction) -> Tensor:
        return self.value.expand(len(alpha))


@pytest.mark.parametrize("path", [DDPMPath(50, zero_terminal_snr=True), RectifiedFlow(50), EDMPath()], ids=repr)
def test_any_weighting_with_parameters_is_learned_by_likelihood_on_every_path(path: Path) -> None:
    plain = Objective(path, "v")(Recording(), X0, COND, DRAWS)
    losses = (objective := Objective(path, "v", weighting=One()))(Recording(), X0, COND, DRAWS)
    assert torch.equal(losses.simple, plain.simple)
    torch.testing.assert_close(losses.weighted, 0.25 * plain.simple - torch.tensor(0.25).log())
    losses.weighted.mean().backward()
    gradient = next(objective.parameters()).grad
    torch.testing.assert_close(gradient, plain.simple.mean().detach() - 1 / 0.25)
    assert Objective(path, "v", weighting=Uncertainty())(Recording(), X0, COND, DRAWS).weighted.isfinite().all()


def test_an_examples_own_weight_enters_the_weighted_loss_alone() -> None:
    plain = Objective(DDPMPath(50))(Recording(), X0, COND, DRAWS)
    weighted = Objective(DDPMPath(50))(Recording(), X0, COND, DRAWS, weight=torch.tensor([1.0, 0.0, 2.0]))
    assert torch.equal(weighted.simple, plain.simple)
    torch.testing.assert_close(weighted.weighted, plain.simple * torch.tensor([1.0, 0.0, 2.0]))


def test_errors_outside_of_the_mask_do_not_count() -> None:
    mask = torch.zeros(3, 1, 4, 4)
    mask[..., :2] = 1
    network = Recording()
    Objective(DDPMPath(50))(network, X0, COND, DRAWS)
    shown = network.seen[0].clone()

    def other_outside(x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        return 0.5 * shown + 100 * (1 - mask)

    masked = Objective(DDPMPath(50))(network, X0, COND, DRAWS, mask=mask)
    changed = Objective(DDPMPath(50))(other_outside, X0, COND, DRAWS, mask=mask)
    torch.testing.assert_close(masked.simple, changed.simple)
    assert not torch.equal(masked.simple, Objective(DDPMPath(50))(network, X0, COND, DRAWS).simple)


def test_an_example_loses_the_same_in_any_micro_batch() -> None:
    objective, network = Objective(DDPMPath(50)), Recording()
    together = objective(network, X0, COND, DRAWS)
    apart = [objective(network, X0[i : i + 1], COND, BatchDraws(5, [10 + i])) for i in range(3)]
    assert together.t.tolist() == [losses.t.item() for losses in apart]
    torch.testing.assert_close(together.weighted, torch.cat([losses.weighted for losses in apart]))


def test_the_same_draws_give_the_same_losses() -> None:
    objective, network = Objective(DDPMPath(50)), Recording()
    first = objective(network, X0, COND, DRAWS).weighted
    torch.rand(10)
    assert torch.equal(first, objective(network, X0, COND, BatchDraws(5, [10, 11, 12])).weighted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_losses_are_float32_around_a_network_in_half_precision(dtype: torch.dtype) -> None:
    objective, network = Objective(DDPMPath(50), "v").to(dtype), Recording().to(dtype)
    x0 = X0.to(dtype)
    losses = objective(network, x0, COND, DRAWS)
    assert network.seen[0].dtype == dtype
    assert losses.simple.dtype == losses.weighted.dtype == torch.float32
    output = (0.5 * network.seen[0]).float()
    alpha, sigma = DDPMPath(50).coefficients(losses.t)
    wanted = target("v", x0.float(), Gaussian()(DRAWS, X0.shape[1:]), alpha, sigma)
    torch.testing.assert_close(losses.simple, ((output - wanted) ** 2).mean((1, 2, 3)))


def test_gradients_reach_the_network() -> None:
    network = Recording()
    Objective(DDPMPath(50))(network, X0, COND, DRAWS).weighted.mean().backward()
    assert network.factor.grad is not None
    assert network.factor.grad.abs() > 0


def test_pure_noise_has_a_finite_loss_and_gradient() -> None:
    path = DDPMPath(50, zero_terminal_snr=True)
    objective = Objective(path, "x0", timesteps=Range(49, 50))
    network = Recording()
    losses = objective(network, X0, COND, DRAWS)
    losses.weighted.mean().backward()
    assert losses.t.tolist() == [49, 49, 49]
    assert losses.weighted.isfinite().all()
    assert network.factor.grad is not None
    assert network.factor.grad.isfinite()


def test_eps_without_terminal_signal_is_a_fault_that_names_the_way_out() -> None:
    with pytest.raises(Fault) as fault:
        Objective(DDPMPath(50, zero_terminal_snr=True), "eps")
    assert fault.value.id == "CFG03"
    assert "v" in fault.value.fix


VANISHING = [MinSNR(), SoftMinSNR(), Debiased(), P2()]


@pytest.mark.parametrize("weighting", VANISHING, ids=lambda weighting: type(weighting).__name__)
@pytest.mark.parametrize("prediction", ["v", "x0"])
def test_a_weighting_that_leaves_pure_noise_out_is_refused_where_sampling_begins_there(
    weighting: Weighting, prediction: Prediction
) -> None:
    """Closed form: at SNR = 0 all of w(SNR) / k^2 are 0, as k^2 is SNR + 1 for v and 1 for x0."""
    nothing, all_noise = torch.zeros(1), torch.ones(1)
    assert weighting(nothing, all_noise, prediction).item() < 1e-3
    with pytest.raises(Fault, match=type(weighting).__name__) as fault:
        Objective(DDPMPath(1000, zero_terminal_snr=True), prediction, weighting=weighting)
    assert fault.value.id == "CFG08" and "weighting" in fault.value.fix
    Objective(DDPMPath(1000), prediction, weighting=weighting)


@pytest.mark.parametrize("prediction", ["v", "x0"])
def test_every_level_counts_without_a_weighting(prediction: Prediction) -> None:
    assert Objective(DDPMPath(1000, zero_terminal_snr=True), prediction).path.alpha[-1] == 0


def is_weighting(one: type) -> bool:
    """Whether a class of the module of weightings can be one as it is."""
    return one.__module__ == weighting_module.__name__ and "__call__" in dir(one) and not isabstract(one)


ENDS: list[Path] = [DDPMPath(100, zero_terminal_snr=True), RectifiedFlow(100)]


@pytest.mark.parametrize("path", ENDS, ids=lambda path: type(path).__name__)
@pytest.mark.parametrize(("noise", "warns"), [(Offset(0.1), True), (Pyramid(), True), (Gaussian(), False)], ids=str)
def test_noise_that_moves_means_is_told_where_sampling_begins_with_white_noise(
    path: Path, noise: NoiseLaw, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    Objective(path, "v", noise=noise)
    assert (f"{type(noise).__name__} moves the mean" in caplog.text) is warns


def test_offset_noise_is_no_matter_where_some_signal_is_left_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    Objective(DDPMPath(100), "v", noise=Offset(0.1))
    assert not caplog.text


@pytest.mark.parametrize(("weighting", "warns"), [(MinSNR(), True), (uniform, False)], ids=str)
def test_a_weighting_that_fades_out_is_told_by_the_levels_and_not_by_the_name_of_the_path(
    weighting: Weighting, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    Objective(EDMPath(), "edm", weighting=weighting)
    assert ("fades out towards pure noise" in caplog.text) is warns


WEIGHTINGS = [one() for one in vars(weighting_module).values() if isinstance(one, type) and is_weighting(one)]
PATHS: list[Path] = [
    DDPMPath(1000, "linear", 0.00085, 0.012),
    DDPMPath(1000, "linear", 0.00085, 0.012, zero_terminal_snr=True),
    RectifiedFlow(),
    EDMPath(),
    EDMPath(sigma_data=1.0),
]
RATIOS: dict[Prediction, Callable[[Tensor, Tensor], Tensor]] = {
    "eps": lambda alpha, sigma: (alpha / sigma) ** 2,
    "x0": lambda alpha, sigma: torch.ones_like(sigma),
    "v": lambda alpha, sigma: (alpha**2 + sigma**2) ** 2 / sigma**2,
    "edm": lambda alpha, sigma: (alpha**2 + sigma**2) ** 2 / sigma**2,
    "flow": lambda alpha, sigma: ((alpha + sigma) / sigma) ** 2,
}
"""k^2 of each prediction: an output's squared error over that of the x_0 that it stands for."""


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{type(path).__name__} {vars(path).get('sigma_data', '')}")
def test_each_weighting_is_defined_on_each_path_and_told_where_it_kills_the_end_that_sampling_begins_at(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Share of the noisiest tenth of all levels, from the closed forms w / k^2: below 0.1 % none is learned there."""
    alpha, sigma = (c.double() for c in path.coefficients(levels(path)))
    snr = (alpha / sigma) ** 2
    assert len(WEIGHTINGS) >= 6
    for weighting, prediction in product(WEIGHTINGS, RATIOS):
        weights = weighting(alpha, sigma, prediction).detach().double()
        assert weights.isfinite().all() and (weights >= 0).all()
        ratio = RATIOS[prediction](alpha, sigma)
        wanted = weighting.of_x0(snr) / ratio if isinstance(weighting, ErrorOfX0) else torch.ones_like(snr)
        seen = (snr > 1e-7) & (snr < 1e7)
        torch.testing.assert_close(weights[seen], wanted[seen], rtol=2e-3, atol=0)
        share, last = wanted[-100:].nansum() / wanted.nansum(), wanted[-1].nan_to_num() / wanted[:-1].mean()
        caplog.clear()
        try:
            Objective(path, prediction, weighting=weighting)
        except Fault as fault:
            assert alpha[-1] == 0 and (fault.id == "CFG03" if prediction == "eps" else last < 1e-3)
            continue
        assert ("fades out towards pure noise" in caplog.text) is bool(share < 1e-3 or last < 1e-3)


def test_two_objectives_do_not_share_their_default_path() -> None:
    assert Objective().path is not Objective().path


def test_an_objective_adds_nothing_to_a_checkpoint() -> None:
    assert Objective().state_dict() == {}
