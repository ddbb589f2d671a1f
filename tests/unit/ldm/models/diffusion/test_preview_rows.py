"""CompVis' rows: what noise does to pictures, how sampling undoes it, and samples around a part that is kept."""

from typing import Any

import pytest
import torch
from support.models import tiny_model
from torch import Tensor

from ldm.diffusion.objective import Objective
from ldm.diffusion.path import DDPMPath
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.diffusion.sampling.sampler import sample
from ldm.errors import Fault
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.models.diffusion.preview import Sampling, previewing
from ldm.models.diffusion.preview_rows import GAP, Scene

SIDE = 8


@pytest.fixture
def scene(model: LatentDiffusion, batch: dict[str, Any]) -> Scene:
    model.log_every_t = 300
    model.eval()
    with torch.no_grad():
        return Scene(model, batch, model.encode(batch, model.draws(batch)), Sampling(5))


def tiles(row: Tensor) -> list[Tensor]:
    """The pictures of a row, apart."""
    count = (row.shape[-1] + GAP) // (SIDE + GAP)
    return [row[..., i * (SIDE + GAP) :][..., :SIDE] for i in range(count)]


def test_rows_show_every_so_many_timesteps_and_the_last(scene: Scene) -> None:
    assert scene.levels == [0, 300, 600, 900, 999]


def test_rows_of_no_timestep_are_a_fault() -> None:
    with pytest.raises(Fault, match="log_every_t is 0"):
        tiny_model(log_every_t=0)


def test_a_diffusion_row_goes_from_the_picture_to_noise(scene: Scene) -> None:
    with previewing(scene.model):
        shown = tiles(scene.diffusion_row())
        clean, noise = scene.model.decode(scene.x0), scene.noisy(999, "diffusion row")
    assert len(shown) == 5 and shown[0].shape == (3, 3, SIDE, SIDE)
    off = [float((picture - clean).abs().mean()) for picture in shown]
    assert off[0] < 0.1 * off[-1]
    torch.testing.assert_close(shown[-1], scene.model.decode(noise))
    sigma = scene.model.objective.path.sigma[600]
    kept = scene.noisy(600, "diffusion row") - scene.model.objective.path.alpha[600] * scene.x0
    drawn = scene.model.draws(scene.few).normal("diffusion row 600", scene.x0.shape[1:])
    torch.testing.assert_close(kept, sigma * drawn)


def test_a_denoise_row_goes_from_noise_to_the_sample(scene: Scene) -> None:
    with previewing(scene.model):
        alone = scene.samples()["samples"]
        drawn = scene.samples(with_row=True)
        start = torch.cat([tiles(scene.samples(with_row=True)["denoise_row"])[0]])
        again = scene.model.log_images(scene.few, ddim_steps=5, plot_denoise_rows=True, sample=False)
    assert torch.equal(drawn["samples"], alone)
    shown = tiles(drawn["denoise_row"])
    assert torch.equal(shown[-1], alone) and not torch.equal(start, alone)
    assert sorted(again) == ["denoise_row", "inputs", "reconstruction"]
    assert torch.equal(again["denoise_row"], drawn["denoise_row"])


def test_a_progressive_row_is_what_ancestral_sampling_foresees(scene: Scene) -> None:
    """Against DDPM's sampling step by step: the posterior's mean and variance (Ho et al. 2020, eq. 6 and 7)."""
    model = scene.model
    model.log_every_t, last = 20, 49
    foreseen: dict[int, Tensor] = {}
    path = model.objective.path = DDPMPath(last + 1, linear_start=0.01, linear_end=0.2)
    bar = path.alphas_cumprod.double()

    def ancestral(network, path, prediction, cond, uncond, noise, *, generator, **_):
        x = noise
        for t in range(last, -1, -1):
            steps = torch.full((len(x),), t)
            output = network(x, steps, cond)
            before = bar[t - 1] if t else torch.tensor(1.0)
            x0 = (x - (1 - bar[t]).sqrt() * output) / bar[t].sqrt()
            foreseen[t] = x0
            beta = 1 - bar[t] / before
            mean = before.sqrt() * beta / (1 - bar[t]) * x0
            mean = mean + (bar[t] / before).sqrt() * (1 - before) / (1 - bar[t]) * x
            drawn = torch.stack([torch.randn(x.shape[1:], generator=one) for one in generator])
            x = (mean + (t > 0) * ((1 - before) / (1 - bar[t]) * beta).sqrt() * drawn).float()
        return x

    with previewing(model), pytest.MonkeyPatch.context() as patched:
        shown = tiles(scene.progressive_row())
        patched.setattr("ldm.models.diffusion.preview.sample", ancestral)
        scene.drawn(Sampling(last + 1, eta=1.0))
        expected = [model.decode(foreseen[t].float()) for t in reversed(scene.levels)]
    for picture, reference in zip(shown, expected, strict=True):
        torch.testing.assert_close(picture, reference, atol=1e-3, rtol=1e-3)


def test_rows_of_rectified_flow_go_along_its_levels(scene: Scene) -> None:
    model = scene.model
    model.objective, model.log_every_t = Objective(RectifiedFlow(20), "flow"), 6
    assert scene.levels == pytest.approx([0.05, 0.35, 0.65, 0.95, 1.0])
    with previewing(model):
        noised, drawn, foreseen = scene.diffusion_row(), scene.samples(with_row=True), scene.progressive_row()
        inpainted = scene.inpainted()
        pure = model.draws(scene.few).normal("diffusion row 1.0", scene.x0.shape[1:])
        torch.testing.assert_close(tiles(noised)[-1], model.decode(pure))
    assert len(tiles(noised)) == len(tiles(foreseen)) == 5
    # Five steps meet 1, 0.8, 0.6, 0.4 and 0.2, the first at or below each level; then comes the sample itself.
    assert len(tiles(drawn["denoise_row"])) == 5 and torch.equal(tiles(drawn["denoise_row"])[-1], drawn["samples"])
    assert inpainted["samples_inpainting"].isfinite().all()


def test_inpainting_keeps_what_lies_around_and_outpainting_the_middle(scene: Scene) -> None:
    seen: list[Tensor] = []
    network = scene.model.model

    def watching(x_t: Tensor, t: Tensor, cond: Any) -> Tensor:
        if int(t[0]) == 401:
            seen.append(x_t)
        return network(x_t, t, cond)

    kept = torch.ones(3, 1, 4, 4)
    kept[..., 1:3, 1:3] = 0
    with previewing(scene.model), pytest.MonkeyPatch.context() as patched:
        shown = scene.inpainted()
        patched.setattr(Scene, "inpainting_network", lambda self, kept: watching)
        scene.made_up(kept)
    assert torch.equal(shown["mask"], kept * 2 - 1)
    assert shown["samples_inpainting"].shape == shown["samples_outpainting"].shape == (3, 3, SIDE, SIDE)
    known = scene.noisy(401, "inpainting")
    torch.testing.assert_close(seen[0] * kept, known * kept)
    assert not torch.allclose(seen[0] * (1 - kept), known * (1 - kept))


def test_a_network_for_inpainting_is_told_what_is_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Tensor] = []

    def network(x_t: Tensor, t: Tensor, cond: Any) -> Tensor:
        told.append(cond.concat)
        return x_t

    monkeypatch.setattr(scene.model, "mask", object())
    monkeypatch.setattr(scene.model.model, "forward", network)
    with previewing(scene.model):
        scene.made_up(kept := torch.cat([torch.ones(3, 1, 4, 2), torch.zeros(3, 1, 4, 2)], dim=-1))
    assert all(torch.equal(around[:, :1], 1 - kept) for around in told)


def test_hooks_of_a_sampler_see_each_step(scene: Scene) -> None:
    met: list[int] = []

    def before(x: Tensor, t: Tensor) -> Tensor:
        met.append(int(t))
        return torch.zeros_like(x)

    made = sample(
        lambda x_t, t, cond: torch.zeros_like(x_t),
        scene.model.objective.path,
        "x0",
        None,  # type: ignore[arg-type]
        None,
        torch.ones(1, 4, 4, 4),
        steps=4,
        before=before,
    )
    assert met == [751, 501, 251, 1] and float(made.abs().max()) == 0


def test_unguided_samples_come_beside_guided_ones(model: LatentDiffusion, batch: dict[str, Any]) -> None:
    how = {"N": 1, "ddim_steps": 2, "plot_unscaled": True, "plot_reconstruction": False}
    guided = model.log_images(batch, unconditional_guidance_scale=3.0, **how)
    plain = model.log_images(batch, **how)
    assert sorted(guided) == ["inputs", "samples", "samples_unscaled"] and sorted(plain) == ["inputs", "samples"]
    assert torch.equal(guided["samples_unscaled"], plain["samples"])
    assert not torch.equal(guided["samples"], plain["samples"])
