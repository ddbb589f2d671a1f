"""The autoencoder's loss: its terms by hand, when the discriminator counts, and what half precision would do to it."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.modules.losses import LPIPSWithDiscriminator
from ldm.modules.losses.contperceptual import LARGEST_WEIGHT
from ldm.modules.posterior import Posterior

NUMBERS = 3 * 8 * 8
STANDARD = Posterior(torch.zeros(2, 4, 4, 4), torch.zeros(2, 4, 4, 4))


def build(**params: Any) -> LPIPSWithDiscriminator:
    torch.manual_seed(0)
    return LPIPSWithDiscriminator(**{"disc_start": 0, "perceptual_weight": 0, "disc_num_layers": 1, **params})


def alone(tensor: Tensor) -> Tensor:
    return tensor


def pair(difference: float = 0.5) -> tuple[Tensor, nn.Conv2d, Tensor]:
    """Real pictures, a last layer, and what it made: everywhere `difference` above."""
    last = nn.Conv2d(1, 3, 1)
    nn.init.zeros_(last.weight)
    nn.init.constant_(last.bias, difference)
    return torch.zeros(2, 3, 8, 8), last, last(torch.ones(2, 1, 8, 8))


def test_reconstruction_and_divergence_by_hand() -> None:
    real, last, made = pair()
    posterior = Posterior(torch.full((2, 4, 4, 4), 2.0), torch.zeros(2, 4, 4, 4))
    loss = build(disc_start=1, logvar_init=0.7, kl_weight=0.25, pixelloss_weight=3.0)
    measured = loss.generator(real, made, posterior, 0, last.weight, alone)
    nll = NUMBERS * (3.0 * 0.5 / math.exp(0.7) + 0.7)
    kl = 64 * 0.5 * 2.0**2
    assert measured.log["rec_loss"].item() == pytest.approx(1.5)
    assert measured.log["nll_loss"].item() == pytest.approx(nll)
    assert measured.log["kl_loss"].item() == pytest.approx(kl)
    assert measured.log["total_loss"].item() == pytest.approx(nll + 0.25 * kl)
    assert measured.loss.item() == pytest.approx((nll + 0.25 * kl) / NUMBERS)


def test_the_perceptual_distance_is_added_to_every_number_of_a_picture() -> None:
    real, made = (torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(n)) for n in (0, 1))
    with_features = {"perceptual_weight": 2.0, "perceptual_features": "random"}
    plain, seen = (
        build(disc_start=1, **more).generator(real, made, STANDARD, 0, None, alone).log for more in ({}, with_features)
    )
    assert seen["lpips"] > 0
    assert seen["rec_loss"].item() == pytest.approx(plain["rec_loss"].item() + 2.0 * seen["lpips"].item())
    assert seen["nll_loss"].item() == pytest.approx(3 * 16 * 16 * seen["rec_loss"].item(), rel=1e-5)


def test_the_adversarial_term_by_hand() -> None:
    real, last, made = pair()
    loss = build(disc_weight=0.5, disc_factor=0.8)
    logits = loss.discriminator(made)
    (push,) = torch.autograd.grad(-logits.mean(), last.weight, retain_graph=True)
    (pull,) = torch.autograd.grad((made - real).abs().mean(), last.weight, retain_graph=True)
    weight = 0.5 * min((pull.norm() / (push.norm() + 1e-4)).item(), LARGEST_WEIGHT / NUMBERS)
    measured = loss.generator(real, made, STANDARD, 0, last.weight, alone)
    assert measured.log["g_loss"].item() == pytest.approx(-logits.mean().item())
    assert measured.log["d_weight"].item() == pytest.approx(NUMBERS * weight, rel=1e-4)
    assert measured.loss.item() == pytest.approx(0.5 + weight * 0.8 * -logits.mean().item(), rel=1e-4)


def test_the_weight_is_bounded_as_compvis_bounds_it_in_the_units_of_its_sum() -> None:
    real, last, made = pair()
    loss = build()
    nn.init.zeros_(loss.discriminator.main[-1].weight)  # nothing pushes back
    measured = loss.generator(real, made, STANDARD, 0, last.weight, alone)
    assert measured.log["d_weight"].item() == pytest.approx(LARGEST_WEIGHT)


def test_a_weight_that_is_not_finite_counts_as_none_and_is_told() -> None:
    real, last, made = pair()
    measured = build().generator(real, made, STANDARD, 0, last.weight, lambda own: own * torch.nan)
    assert measured.log["d_weight_lost"].item() == 1.0
    assert measured.loss.item() == pytest.approx(0.5)


@pytest.mark.parametrize(("step", "part"), [(0, False), (6, False), (7, True), (8, True)])
def test_the_discriminator_begins_at_its_step(step: int, part: bool) -> None:
    real, last, made = pair()
    loss = build(disc_start=7)
    seen: list[Tensor] = []
    loss.discriminator.register_forward_hook(lambda *call: seen.append(call[2]))
    log = loss.generator(real, made, STANDARD, step, last.weight, alone).log
    assert loss.takes_part(step) is part and bool(seen) is part  # while it is off, it costs nothing
    assert (log["disc_factor"].item(), log["d_weight"].item() > 0) == (float(part), part)


def test_the_discriminators_loss_by_hand_reaches_nobody_else() -> None:
    real, _, made = pair()
    loss = build(disc_factor=0.5)
    of_real, of_made = loss.discriminator(real), loss.discriminator(made)
    measured = loss.judge(real, made)
    by_hand = 0.5 * 0.5 * ((1 - of_real).clamp(min=0).mean() + (1 + of_made).clamp(min=0).mean())
    assert measured.loss.item() == pytest.approx(by_hand.item())
    (gradient,) = torch.autograd.grad(measured.loss, made, allow_unused=True)
    assert gradient is None


def test_the_log_variance_is_learned_when_asked() -> None:
    """Its best value is the logarithm of the distance, where the gradient vanishes."""
    real, last, made = pair()
    for start, slope in ((0.0, 0.5), (math.log(0.5), 0.0)):
        loss = build(disc_start=1, logvar_init=start, learn_logvar=True)
        loss.generator(real, made, STANDARD, 0, last.weight, alone).loss.backward(retain_graph=True)
        assert loss.logvar.grad is not None
        assert loss.logvar.grad.item() == pytest.approx(slope, abs=1e-6)
    assert not build().logvar.requires_grad


def test_large_values_that_break_half_precision_leave_the_loss_finite() -> None:
    """Pictures far off, latents far out: CompVis' sums in float16 are infinite or no numbers, ours equal float32's."""
    generator = torch.Generator().manual_seed(0)
    real = torch.rand(1, 3, 256, 256, generator=generator) * 2 - 1
    made = (3 * torch.randn(1, 3, 256, 256, generator=generator)).half()
    moments = torch.cat([40 * torch.randn(1, 4, 32, 32, generator=generator), torch.full((1, 4, 32, 32), 11.5)], 1)
    mean, log_variance = moments.half().chunk(2, dim=1)

    naive_rec = (real.half() - made).abs().sum()
    naive_kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
    assert not naive_rec.isfinite() and not naive_kl.isfinite()
    naive_features = torch.full((1, 512, 2, 2), 12.0, dtype=torch.float16)
    assert naive_features.square().sum(dim=1).isinf().all()

    loss = build(disc_num_layers=3, perceptual_weight=1.0, perceptual_features="random")
    with torch.autocast("cpu", dtype=torch.float16):
        half = loss.generator(real.half(), made, Posterior.of(moments.half()), 0, None, alone)
        judged = loss.judge(real.half(), made)
    exact = loss.generator(real, made.float(), Posterior.of(moments), 0, None, alone)
    for name, value in exact.log.items():
        assert half.log[name].dtype == torch.float32 and half.log[name].item() == pytest.approx(value.item(), rel=2e-2)
    assert half.loss.item() == pytest.approx(exact.loss.item(), rel=2e-2) and judged.loss.isfinite()


def test_gradients_of_the_sum_overflow_under_a_loss_scale_and_those_of_the_mean_do_not() -> None:
    layer = nn.Conv2d(3, 3, 3, padding=1)
    real = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))

    def finite(divide: bool) -> bool:
        layer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            made = layer(real)
            measured = build(disc_start=1).generator(real, made, STANDARD, 0, None, alone)
        loss = measured.loss if divide else (real - made.float()).abs().sum()
        (65536 * loss).backward()
        assert layer.weight.grad is not None
        return bool(layer.weight.grad.isfinite().all())

    assert finite(divide=True) and not finite(divide=False)


def test_without_weights_of_vgg_the_message_names_the_ways_out() -> None:
    with pytest.raises(Fault) as caught:
        LPIPSWithDiscriminator(disc_start=0)
    assert caught.value.id == "MOD01"
    assert all(way in caught.value.fix for way in ("perceptual_path=", "perceptual_weight=0", "features=random"))


@pytest.mark.parametrize("name", ["use_actnorm", "disc_conditional"])
def test_what_it_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(Fault, match=f"CFG03.*{name} is not available"):
        build(**{name: True})


def test_both_public_paths_are_one_class() -> None:
    from ldm.modules.losses.contperceptual import LPIPSWithDiscriminator as by_module

    assert by_module is LPIPSWithDiscriminator
