"""Losses of examples whose target is what the base gives, beside others in one batch."""

from types import SimpleNamespace
from typing import Any

import torch
from support.adapted import adapted, learned
from support.models import tiny_model
from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.models.diffusion.batch_losses import BaseTargets, batch_losses
from ldm.models.diffusion.ddpm import LatentDiffusion

LORA: dict[str, Any] = {
    "target": "ldm.adapters.Adapters",
    "params": {
        "rules": {"all": {"match": "unet.*to_*", "kind": {"target": "ldm.adapters.LoRA", "params": {"rank": 2}}}}
    },
}


def with_lora() -> LatentDiffusion:
    model = tiny_model(adapter_config=LORA, cond_stage_trainable=False, use_ema=False)
    model.configure_model()
    return model.eval()


def batch_of(*kinds: str) -> dict[str, Any]:
    image = torch.rand(len(kinds), 8, 8, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    slots = torch.arange(5, 5 + len(kinds))
    return {"image": image, "caption": ["red a", "green b", "blue c"][: len(kinds)], "slot": slots, "kind": list(kinds)}


def losses(model: LatentDiffusion, batch: dict[str, Any]) -> Tensor:
    draws = model.draws(batch)
    x0 = model.encode(batch, draws)
    return batch_losses(model, x0, model.condition(batch, draws, x0), draws, batch).simple


def test_the_target_of_such_examples_is_the_bases_output_and_that_of_others_stays() -> None:
    model = with_lora()
    plain, some = batch_of("train", "train", "train"), batch_of("train", "prior", "train")
    before, at_first = losses(model, plain), losses(model, some)
    assert torch.equal(at_first[[0, 2]], before[[0, 2]])
    assert at_first[1] < 1e-10 < before[1]  # adapters add nothing yet
    learned(model.model)  # type: ignore[arg-type]
    assert losses(model, some)[1] > 1e-6


def test_only_those_examples_go_through_the_base_and_only_where_there_are_any() -> None:
    model, seen = with_lora(), []
    model.model.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))  # type: ignore[union-attr]
    losses(model, batch_of("prior", "train", "prior"))
    losses(model, batch_of("train", "class"))
    assert seen == [2, 3, 2]


def test_the_base_is_told_the_captions_as_its_own_text_encoder_encodes_them() -> None:
    torch.manual_seed(0)
    encoder, x0 = nn.Linear(12, 16), torch.zeros(2, 1, 1, 1)
    learned(adapted("LoRA", encoder))
    given: dict[str, Any] = {}

    def objective(network: Any, x0: Any, cond: Any, *rest: Any) -> None:
        given.update(cond=cond, targets=rest[-1])

    words = torch.randn(2, 12)
    model = SimpleNamespace(
        text_encoder_trains=True,
        cond_stage_model=encoder,
        condition=lambda batch, draws, x0: Conditioning(encoder(words)),
        objective=objective,
        model=nn.Identity(),
    )
    batch_losses(model, x0, Conditioning(encoder(words)), BatchDraws(0, [0, 1]), {"kind": ["prior", "train"]})
    targets: BaseTargets = given["targets"]
    torch.testing.assert_close(targets.cond.context, nn.functional.linear(words, encoder.weight, encoder.bias))
    assert not torch.allclose(given["cond"].context, targets.cond.context)  # type: ignore[arg-type]
