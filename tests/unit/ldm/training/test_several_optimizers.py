"""Several optimizers as one: who steps what, what is stored, what is refused."""

from typing import Any

import pytest
import torch
from torch import nn

from ldm.errors import Fault
from ldm.training.several_optimizers import Joined
from ldm.util import instantiate_from_config

PARTS = {
    "adamw": {"target": "torch.optim.AdamW", "params": {"weight_decay": 0.1}},
    "muon": {"target": "ldm.training.matrices.Muon"},
}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 4))


def groups_of(net: nn.Module, **muon: Any) -> list[dict[str, Any]]:
    wide, narrow = ([p for p in net.parameters() if (p.ndim > 1) is want] for want in (True, False))
    return [{"params": wide, "optimizer": "muon", **muon}, {"params": narrow, "lr": 0.5}]


def joined(net: nn.Module, **muon: Any) -> Joined:
    return Joined(groups_of(net, **muon), optimizers=PARTS, otherwise="adamw", lr=0.1)


def train(net: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (step + 1)
        optimizer.zero_grad()
        net(torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(step))).square().mean().backward()
        optimizer.step()


def test_each_group_is_stepped_by_its_optimizer_as_by_that_one_alone() -> None:
    together, apart = network(), network()
    train(together, joined(together), range(3))
    wide, narrow = groups_of(apart)
    alone = [instantiate_from_config(PARTS["muon"], wide["params"], lr=0.1)]
    alone.append(instantiate_from_config(PARTS["adamw"], narrow["params"], lr=0.1))
    for step in range(3):
        for optimizer in alone:
            optimizer.param_groups[0]["lr"] = 0.1 / (step + 1)
            optimizer.zero_grad()
        apart(torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(step))).square().mean().backward()
        for optimizer in alone:
            optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(together.parameters(), apart.parameters(), strict=True))


def test_settings_are_those_of_each_optimizer() -> None:
    optimizer = joined(network(), momentum=0.5)
    muon, adamw = optimizer.param_groups
    assert (muon["momentum"], muon["lr"], "betas" in muon) == (0.5, 0.1, False)
    assert (adamw["betas"], adamw["lr"], adamw["weight_decay"]) == ((0.9, 0.999), 0.5, 0.1)
    assert {"momentum", "betas", "optimizer"} <= optimizer.defaults.keys()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"otherwise": "sgd"}, "no optimizer 'sgd'; there are adamw, muon"),
        ({"optimizers": PARTS | {"more": PARTS["adamw"]}}, "more has nothing to do: no rule says optimizer: more"),
        ({"optimizers": PARTS | {"adamw": {"target": "torch.nn.ReLU"}}}, "ReLU"),
        ({"optimizers": PARTS | {"adamw": {"target": "schedulefree.AdamWScheduleFree"}}}, "one of several"),
        ({"muon": {"betas": (0.9, 0.9)}}, "the optimizer muon has no setting betas; it takes lr, weight_decay"),
    ],
)
def test_what_cannot_be_joined_is_refused(change: dict[str, Any], says: str) -> None:
    groups = groups_of(network(), **change.pop("muon", {}))
    params = {"optimizers": PARTS, "otherwise": "adamw"} | change
    with pytest.raises(Fault) as told:
        instantiate_from_config({"target": "ldm.training.several_optimizers.Joined", "params": params}, groups, lr=0.1)
    assert says in told.value.render()
