"""Ways to keep a frozen base in few bits."""

import sys

import pytest
import torch
from torch import nn

from ldm.adapters import Int8, Nf4
from ldm.errors import Fault
from ldm.missing_packages import install_line
from ldm.training.quantised import Quantisation, QuantisedLinear


def require_close(kind: Quantisation, most: float) -> None:
    """Codes and scales take what `size` says, and stand for the matrix within `most` of its deviation."""
    weight = torch.randn(24, 40, generator=torch.Generator().manual_seed(0))
    codes, scales = kind.encode(weight)
    assert codes.dtype == torch.int8 and scales.dtype == torch.float32
    assert codes.nbytes + scales.nbytes == kind.size(weight.shape)
    for dtype in (torch.float32, torch.bfloat16):
        again = kind.decode(codes, scales, weight.shape, dtype)
        assert again.dtype == dtype and again.shape == weight.shape
        assert 0 < float((again.float() - weight).square().mean().sqrt()) < most


def test_int8_is_within_a_hundredth_and_keeps_rows_of_zeros() -> None:
    require_close(Int8(), 0.01)
    codes, scales = Int8().encode(torch.zeros(2, 4))
    assert torch.equal(Int8().decode(codes, scales, torch.Size((2, 4)), torch.float32), torch.zeros(2, 4))


def test_nf4_is_within_a_tenth_and_computes_with_what_its_codes_stand_for() -> None:
    pytest.importorskip("bitsandbytes")
    kind = Nf4()
    require_close(kind, 0.11)
    layer, x = nn.Linear(40, 24), torch.randn(3, 40, requires_grad=True)
    layer.quantised_as = kind  # type: ignore[assignment]
    QuantisedLinear.take_over(layer, kind)
    assert isinstance(layer, QuantisedLinear)
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, layer.matrix(torch.float32).sum(0).expand(3, 40))


def test_nf4_without_its_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(Fault) as refused:
        Nf4()
    assert refused.value.id == "DEP01" and install_line("bitsandbytes") in str(refused.value.fix)
