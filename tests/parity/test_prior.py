"""Training with examples that keep the base's predictions, against a loop with a frozen copy of the base."""

import copy
from typing import Any

import pytest
import torch
from support.models import tiny_model
from torch import Tensor, nn

from ldm.adapters.layer import adapters_in
from ldm.models.diffusion.batch_losses import batch_losses
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.training.groups import named_layers

LORA: dict[str, Any] = {
    "target": "ldm.adapters.Adapters",
    "params": {
        "rules": {"all": {"match": "unet.*to_*", "kind": {"target": "ldm.adapters.LoRA", "params": {"rank": 2}}}}
    },
}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "eps": {},
    "v": {"parameterization": "v"},
    "flow": {
        "linear_start": 1e-4,
        "linear_end": 2e-2,
        "objective": {
            "target": "ldm.diffusion.objective.Objective",
            "params": {"path": {"target": "ldm.diffusion.rectified_flow.RectifiedFlow"}, "prediction": "flow"},
        },
    },
}
KINDS = [["train", "prior"], ["prior", "prior"], ["train", "train"]]
STEPS = 4


def model_of(objective: str) -> LatentDiffusion:
    model = tiny_model(adapter_config=LORA, cond_stage_trainable=False, use_ema=False, **OBJECTIVES[objective])
    model.unet_config = {**model.unet_config, "params": {**model.unet_config["params"], "dropout": 0.0}}
    model.configure_model()
    return model.train()


def batch_of(step: int) -> dict[str, Any]:
    image = torch.rand(2, 8, 8, 3, generator=torch.Generator().manual_seed(step)) * 2 - 1
    slots = torch.tensor([2 * step, 2 * step + 1])
    return {"image": image, "caption": ["red", "green"], "slot": slots, "kind": KINDS[step % len(KINDS)]}


def ours(model: LatentDiffusion, base: nn.Module, batch: dict[str, Any]) -> Tensor:
    draws = model.draws(batch)
    x0 = model.encode(batch, draws)
    return batch_losses(model, x0, model.condition(batch, draws, x0), draws, batch).weighted.mean()


def loop(model: LatentDiffusion, base: nn.Module, batch: dict[str, Any]) -> Tensor:
    """The same by the formulas, the whole batch through a copy of the network that never had adapters."""
    draws, law = model.draws(batch), model.objective
    x0 = model.encode(batch, draws)
    cond = model.condition(batch, draws, x0)
    t, noise = law.timesteps(draws, law.path, x0.shape[1:]), law.noise(draws, x0.shape[1:])
    alpha, sigma = (number.float().view(-1, 1, 1, 1) for number in law.path.coefficients(t))
    x_t, clock = alpha * x0 + sigma * noise, law.path.clock(t)
    target = {"eps": noise, "v": alpha * noise - sigma * x0, "flow": noise - x0}[str(law.prediction)]
    with torch.no_grad():
        kept = base(x_t, clock, cond)
    is_prior = torch.tensor([kind == "prior" for kind in batch["kind"]]).view(-1, 1, 1, 1)
    error = (model.model(x_t, clock, cond) - torch.where(is_prior, kept, target)).square()  # type: ignore[misc]
    return error.mean((1, 2, 3)).mean()


def trained(objective: str, loss_of: Any) -> dict[str, Tensor]:
    model = model_of(objective)
    assert model.model is not None
    base = copy.deepcopy(model.model)
    for _, adapter in adapters_in(dict(base.named_modules())):
        nn.init.zeros_(adapter.up)  # type: ignore[arg-type]
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=0.05)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, base, batch_of(step)).backward()
        optimizer.step()
    layers = named_layers({"unet": model.model.diffusion_model})
    return {f"{name}.{key}": t for name, adapter in adapters_in(layers) for key, t in adapter.tensors().items()}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_weights_are_those_of_a_loop_with_a_frozen_copy(objective: str) -> None:
    one, other = trained(objective, ours), trained(objective, loop)
    assert max(float(t.detach().abs().max()) for name, t in one.items() if "up" in name) > 0.05
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=1e-3, atol=1e-4, msg=name)
