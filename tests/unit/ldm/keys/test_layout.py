"""Names of CompVis' checkpoints: which tensors of a file go on."""

import torch

from ldm.keys.layout import compvis_names


def test_what_an_objective_has_learned_is_no_part_of_a_model() -> None:
    state = {name: torch.ones(1) for name in ("model.diffusion_model.out.2.bias", "objective.weighting.u")}
    assert list(compvis_names(state, "a run")) == ["model.diffusion_model.out.2.bias"]
