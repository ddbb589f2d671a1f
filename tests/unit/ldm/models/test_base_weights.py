"""Networks below adapters: left out of checkpoints, and known again."""

from pathlib import Path

import pytest
import torch
from support.adapted import adapted
from support.models import tiny_model
from torch import nn

from ldm.errors import Fault
from ldm.models.base_weights import BaseWeights


class Part(nn.Module):
    def __init__(self, loaded_from: str | None) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 16).requires_grad_(False)
        self.loaded_from = loaded_from
        adapted("LoRA", self.layer)


def based_on(part: Part) -> BaseWeights:
    return BaseWeights.of({"model.": part})


def test_a_part_is_left_out_where_a_file_holds_it_and_nothing_of_it_trains_but_adapters() -> None:
    read, drawn, trained = Part("sd.ckpt"), Part(None), Part("sd.ckpt")
    trained.layer.bias.requires_grad_(True)
    assert based_on(read).given == {"model.": "sd.ckpt"}
    assert based_on(drawn).given == based_on(trained).given == {}
    names = dict.fromkeys(["model.layer.weight", "model.layer.adapter.down", "scale_factor"], torch.empty(0))
    assert list(based_on(read).left_out_of(names)) == ["model.layer.adapter.down", "scale_factor"]
    assert based_on(drawn).left_out_of(names) == names


def test_the_hash_is_that_of_the_base_whatever_its_adapters_learn_and_wherever_it_lies() -> None:
    part = Part("sd.ckpt")
    before = based_on(part).hashes
    part.layer.adapter.down.data += 1  # type: ignore[operator, union-attr]
    part.loaded_from = "models/sd"
    assert based_on(part).hashes == before
    part.layer.bias.data[3] += 1e-6
    assert based_on(part).hashes != before


def test_a_checkpoint_that_lacks_an_adapter_is_refused_by_the_name_of_what_it_lacks() -> None:
    part = Part("sd.ckpt")
    own = {f"model.{name}": value for name, value in part.state_dict().items()}
    base = based_on(part)
    whole = base.left_out_of(own)
    base.require(base.to_checkpoint(), whole, own, "a.ckpt")
    with pytest.raises(Fault, match="RES05") as told:
        base.require(base.to_checkpoint(), list(whole)[1:], own, "a.ckpt")
    assert f"first missing: {next(iter(whole))}" in told.value.render()


def test_a_checkpoint_of_adapters_resumed_without_any_is_refused(tmp_path: Path) -> None:
    stored = {"given": {"model.": "sd.ckpt"}, "sha256": {"model.": "0" * 64}}
    model = tiny_model()
    model.configure_model()
    with pytest.raises(Fault, match="RES05") as told:
        model.on_load_checkpoint({"state_dict": {}, "base": stored})
    assert "none is read for it" in told.value.why
