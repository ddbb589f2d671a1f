"""Every optimizer of bitsandbytes on a GPU: `python -m pytest tests/gpu/test_bitsandbytes.py -m gpu`."""

import copy
import inspect

import pytest
import torch
from torch import nn

from ldm.errors import Fault
from ldm.util import instantiate_from_config

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm device")]


def test_each_steps_and_goes_on_from_its_state_or_is_refused_as_it_is_built() -> None:
    optim = pytest.importorskip("bitsandbytes").optim
    kinds = [kind for _, kind in inspect.getmembers(optim, inspect.isclass) if issubclass(kind, torch.optim.Optimizer)]
    stepped, refused, failed = [], [], {}
    for kind in kinds:
        recipe = {"target": f"bitsandbytes.optim.{kind.__name__}"}
        layer = nn.Linear(128, 64, device="cuda")
        try:
            optimizer = instantiate_from_config(recipe, layer.parameters(), lr=1e-2)
            before = copy.deepcopy(layer.state_dict())
            for _ in range(3):
                layer(torch.randn(4, 128, device="cuda")).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            assert all(weight.isfinite().all() for weight in layer.parameters())
            assert all(not torch.equal(weight, before[name]) for name, weight in layer.state_dict().items())
            instantiate_from_config(recipe, layer.parameters(), lr=1e-2).load_state_dict(optimizer.state_dict())
            stepped.append(kind.__name__)
        except Fault as fault:
            assert fault.id == "CFG08", fault
            refused.append(kind.__name__)
        except Exception as error:  # all of them are told at once
            failed[kind.__name__] = repr(error)
    print(f"\n{len(stepped)} stepped, {len(refused)} refused: {refused}")
    assert failed == {} and "AdamW8bit" in stepped
