"""What a config says of an optimizer, against what a checkpoint brings back."""

import pytest
import torch
from torch import nn

from ldm.errors import Fault
from ldm.training.optimizer_settings import apply_changes, require_same_kind, settings_of, without_gaps


def adamw(**settings) -> torch.optim.AdamW:
    return torch.optim.AdamW(nn.Linear(2, 2).parameters(), **{"lr": 1e-3} | settings)


def resumed(before, after):
    """`after` with the state of `before` restored, and the changes applied."""
    stored, now = settings_of(before, {}), settings_of(after, {})
    after.load_state_dict(before.state_dict())
    apply_changes([after], [stored], [now])
    return after.param_groups[0]


def test_what_was_changed_holds_and_what_was_not_stays_restored():
    before = adamw(betas=(0.9, 0.99))
    before.param_groups[0]["found_out_by_itself"] = 7.5
    group = resumed(before, adamw(weight_decay=0.3, betas=(0.9, 0.99)))
    assert (group["weight_decay"], group["betas"], group["found_out_by_itself"]) == (0.3, (0.9, 0.99), 7.5)


def test_nothing_changed_changes_nothing():
    before = adamw()
    before.param_groups[0]["weight_decay"] = 0.7
    assert resumed(before, adamw(weight_decay=0.7))["weight_decay"] == 0.7


@pytest.mark.parametrize(
    "other",
    [torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1e-3), torch.optim.AdamW([nn.Parameter(torch.ones(1))], lr=1e-3)],
    ids=["another class", "other parameters"],
)
def test_state_of_another_optimizer_is_refused(other):
    with pytest.raises(Fault, match="RES05"):
        require_same_kind([settings_of(adamw(), {})], [settings_of(other, {})])
    require_same_kind([], [settings_of(other, {})])


def test_states_that_would_go_to_other_parameters_of_as_many_are_refused():
    one, two = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    names = {id(one): "unet.one", id(two): "unet.two"}
    before, after = ([{"params": [first]}, {"params": [second]}] for first, second in ((one, two), (two, one)))
    stored, now = (settings_of(torch.optim.AdamW(groups), names) for groups in (before, after))
    require_same_kind([stored], [stored])
    with pytest.raises(Fault, match="2 are in another group"):
        require_same_kind([stored], [now])
    renamed = settings_of(torch.optim.AdamW(before), {id(one): "unet.a", id(two): "unet.b"})
    require_same_kind([stored], [renamed])
    require_same_kind([{name: value for name, value in stored.items() if name != "names"}], [now])


@pytest.mark.parametrize(
    ("weight", "fills"),
    [
        (torch.ones(4, 3), True),
        (torch.ones(4, 3).T, True),
        (torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last), True),
        (torch.ones(4, 3)[:, :2], False),
        (torch.ones(3, 1).expand(3, 2), False),
    ],
)
def test_weights_with_gaps_in_their_memory_are_told_from_others(weight, fills):
    assert without_gaps([torch.ones(2), weight]) is fills
