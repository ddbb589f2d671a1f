"""LPIPS without torchvision: its terms by hand, its weights' names, and what it does where there are none."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from ldm.errors import Fault
from ldm.modules.losses.lpips import LPIPS, read_heads
from ldm.modules.losses.vgg import STAGES, VGG16Features, random_vgg, shapes


@pytest.fixture(scope="module")
def lpips() -> LPIPS:
    return LPIPS(None)


def pictures(seed: int, side: int = 16) -> torch.Tensor:
    return torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def configuration_d() -> nn.Sequential:
    """VGG16's features as torchvision lays them out, by the table of the paper: convolutions, ReLUs and pools in a row.

    The numbers are random, biases included: a layer that is left out, doubled or taken for another shows.
    """
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    channels = 3
    for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if not width:
            layers.append(nn.MaxPool2d(2, 2))
            continue
        convolution = nn.Conv2d(channels, width, 3, padding=1)
        nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
        assert convolution.bias is not None
        nn.init.normal_(convolution.bias, std=0.1)
        layers += [convolution, nn.ReLU()]
        channels = width
    return nn.Sequential(*layers)


def test_vgg16_has_its_public_size() -> None:
    assert sum(torch.Size(shape).numel() for shape in shapes().values()) == 14_714_688
    assert shapes()["features.17.weight"] == (512, 256, 3, 3)


def test_a_file_with_torchvisions_names_is_read_in_either_format(tmp_path: Path) -> None:
    weights = random_vgg()
    more = {**weights, "classifier.0.bias": torch.zeros(3)}
    torch.save(more, tmp_path / "vgg.pth")
    save_file(more, tmp_path / "vgg.safetensors")
    x = pictures(0)
    expected = VGG16Features()(x)
    for name in ("vgg.pth", "vgg.safetensors"):
        found = VGG16Features(str(tmp_path / name))(x)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert [tuple(map.shape) for map in expected] == [
        (2, width, 16 // 2**stage, 16 // 2**stage) for stage, (_, width) in enumerate(STAGES)
    ]


def test_another_networks_file_is_refused(tmp_path: Path) -> None:
    save_file({"features.0.weight": torch.zeros(64, 3, 3, 3)}, tmp_path / "other.safetensors")
    with pytest.raises(Fault, match="MOD03.*does not hold the features of VGG16") as caught:
        VGG16Features(str(tmp_path / "other.safetensors"))
    assert "25 of 26" in caught.value.why
    with pytest.raises(Fault, match="MOD01"):
        VGG16Features(str(tmp_path / "none.pth"))


def test_the_distance_is_the_one_of_the_paper(lpips: LPIPS) -> None:
    a, b = pictures(1), pictures(2)
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    features = [VGG16Features()((x - shift.view(1, 3, 1, 1)) / scale.view(1, 3, 1, 1)) for x in (a, b)]
    by_hand = torch.zeros(2)
    for head, one, other in zip(read_heads(), *features, strict=True):
        difference = (F.normalize(one, dim=1) - F.normalize(other, dim=1)).square()
        by_hand += F.conv2d(difference, head).mean(dim=(1, 2, 3))
    assert torch.allclose(lpips(a, b), by_hand, rtol=1e-4)


def test_distance_and_gradient_are_torchmetrics_over_torchvisions_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference wants torchvision for its VGG16 alone; ours reads the same weights from a file of that layout."""
    from torchmetrics.functional.image import lpips as reference

    trunk = configuration_d()
    file = tmp_path / "vgg16.safetensors"
    save_file({f"features.{name}": tensor for name, tensor in trunk.state_dict().items()}, file)
    monkeypatch.setattr(reference, "_get_tv_model_features", lambda net, pretrained: trunk)
    theirs, ours = reference._LPIPS(net="vgg", pnet_rand=True), LPIPS(str(file))
    real = pictures(8, side=40)  # 40 is not divisible by 16: pools leave a remainder
    made, again = (pictures(9, side=40).requires_grad_() for _ in range(2))
    expected, found = theirs(real, made).flatten(), ours(real, again)
    assert torch.allclose(found, expected, rtol=1e-5)
    expected.sum().backward()
    found.sum().backward()
    assert made.grad is not None and again.grad is not None
    assert torch.allclose(again.grad, made.grad, rtol=1e-3, atol=1e-3 * float(made.grad.abs().max()))


def test_names_and_shapes_are_those_of_torchvisions_layout() -> None:
    layout = {f"features.{name}": tuple(tensor.shape) for name, tensor in configuration_d().state_dict().items()}
    assert shapes() == layout


def test_a_picture_is_at_no_distance_from_itself(lpips: LPIPS) -> None:
    assert torch.equal(lpips(pictures(3), pictures(3)), torch.zeros(2))


def test_heads_weigh_and_never_reward(lpips: LPIPS) -> None:
    heads = read_heads()
    assert [tuple(head.shape) for head in heads] == [(1, width, 1, 1) for _, width in STAGES]
    assert all((head >= 0).all() for head in heads)


def test_gradients_reach_the_made_picture_alone(lpips: LPIPS) -> None:
    real, made = pictures(4), pictures(5).requires_grad_()
    lpips(real, made).sum().backward()
    assert made.grad is not None and made.grad.abs().sum() > 0
    assert list(lpips.parameters()) == [] and lpips.state_dict() == {}


def test_the_smallest_picture_is_compared_and_a_smaller_one_is_refused_by_name(lpips: LPIPS) -> None:
    assert lpips(torch.zeros(1, 3, 16, 24), torch.ones(1, 3, 16, 24)) > 0
    with pytest.raises(Fault, match="24 x 15 pixels are too small for the perceptual loss"):
        lpips(torch.zeros(1, 3, 15, 24), torch.ones(1, 3, 15, 24))


def test_dead_features_have_a_finite_gradient() -> None:
    from ldm.modules.losses.lpips import _normalised

    features = torch.zeros(1, 4, 2, 2, requires_grad=True)
    _normalised(features).sum().backward()
    assert features.grad is not None and features.grad.isfinite().all()
    outside = torch.zeros(1, 4, 2, 2, requires_grad=True)
    (outside / (outside.square().sum(dim=1, keepdim=True).sqrt() + 1e-10)).sum().backward()
    assert outside.grad is not None and outside.grad.isnan().all()  # with the small number outside of the root


def test_under_autocast_the_distance_stays_in_full_precision(lpips: LPIPS) -> None:
    a, b = pictures(6), pictures(7)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = lpips(a, b)
    assert found.dtype == torch.float32 and torch.equal(found, lpips(a, b))
