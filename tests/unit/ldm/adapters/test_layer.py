"""What holds of every kind of adapter on every kind of layer."""

import pytest
import torch
from support.adapted import KINDS, LAYERS, adapted, example, learned
from support.adapter_reader import read_by_others
from support.equality import differences
from torch import nn
from torch.utils.checkpoint import checkpoint

from ldm.adapters.layer import Adapter, adapters_in
from ldm.errors import Fault

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def layer(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    made: nn.Module = LAYERS[request.param]()
    return made


matrix = pytest.mark.parametrize(("kind", "layer"), [(k, name) for k in KINDS for name in LAYERS], indirect=["layer"])


@matrix
def test_a_layer_gives_at_first_what_it_gave_without_an_adapter_and_keeps_its_names(
    kind: str, layer: nn.Module
) -> None:
    before, names = layer(example(layer)), list(layer.state_dict())
    adapted(kind, layer)
    assert torch.equal(layer(example(layer)), before)
    assert list(layer.state_dict())[:2] == names
    assert all(name.startswith("adapter.") for name in list(layer.state_dict())[2:])


@matrix
def test_merged_weights_compute_what_layer_and_adapter_do_and_what_other_programs_make_of_its_tensors(
    kind: str, layer: nn.Module
) -> None:
    adapter = adapted(kind, layer)
    weight = layer.weight.detach().clone()  # type: ignore[operator, union-attr]
    learned(adapter)
    x, bias = example(layer), layer.bias.detach()  # type: ignore[operator, union-attr]
    merged = adapter.merged(weight).detach()
    expected = adapter.operation(x, merged) + (
        bias if bias.ndim == x.ndim - 1 else bias.reshape(1, -1, *[1] * (x.ndim - 2))
    )
    moved = (merged - weight).abs().max()
    assert moved > 0.05
    torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(layer.weight, weight)
    torch.testing.assert_close(read_by_others(weight, adapter.tensors()), merged, rtol=1e-6, atol=1e-6)


@matrix
def test_every_tensor_of_an_adapter_learns_and_the_dropout_is_repeated_by_the_seed(kind: str, layer: nn.Module) -> None:
    layer.requires_grad_(False)
    adapter = adapted(kind, layer, dropout=0.3)
    learned(adapter)
    torch.manual_seed(3)
    out = layer(example(layer))
    out.square().mean().backward()
    assert {name for name, p in adapter.named_parameters() if p.grad is None or not p.grad.any()} == set()
    torch.manual_seed(3)
    assert torch.equal(layer(example(layer)), out)
    assert not torch.equal(layer(example(layer)), out)


@every_kind
def test_an_adapter_stays_precise_on_a_base_in_half(kind: str) -> None:
    layer = LAYERS["linear"]().to(torch.bfloat16)
    adapter = adapted(kind, layer)
    learned(adapter)
    out = layer(example(layer).to(torch.bfloat16))
    assert out.dtype == torch.bfloat16
    assert all(p.dtype == torch.float32 for p in adapter.parameters())
    expected = adapter.operation(example(layer).to(torch.bfloat16).float(), adapter.merged(layer.weight))
    torch.testing.assert_close(out.float(), expected + layer.bias.float(), rtol=0.02, atol=0.05)


@every_kind
def test_an_adapter_on_a_layer_without_memory_has_none_itself(kind: str) -> None:
    with torch.device("meta"):
        layer = LAYERS["3x3, stride 2"]()
    assert all(parameter.is_meta for parameter in adapted(kind, layer).parameters())


def test_weights_of_another_rank_or_alpha_are_refused_by_name() -> None:
    layers = {"mine": LAYERS["linear"]()}
    adapted("LoRA", layers["mine"])
    for other in ({"rank": 2}, {"alpha": 1.0}):
        stored = nn.ModuleDict({"mine": LAYERS["linear"]()})
        adapted("LoRA", stored["mine"], **other)
        with pytest.raises(Fault, match="RES05") as told:
            nn.ModuleDict(layers).load_state_dict(stored.state_dict())
        assert f"mine.adapter.{'down' if 'rank' in other else 'alpha'} is" in told.value.render()


@pytest.mark.parametrize(
    ("params", "said"),
    [({"rank": 0}, "rank is 0"), ({"alpha": 0.0}, "alpha is 0"), ({"dropout": 1.0}, "dropout is 1")],
    ids=["rank", "alpha", "dropout"],
)
@every_kind
def test_settings_that_no_adapter_can_have_are_refused(kind: str, params: dict[str, float], said: str) -> None:
    with pytest.raises(Fault, match="CFG03") as told:
        adapted(kind, LAYERS["linear"](), **params)
    assert said in told.value.what


@pytest.mark.parametrize(
    "layer", [nn.Embedding(3, 4), nn.Conv2d(4, 4, 1, groups=2), nn.LayerNorm(4)], ids=["table", "groups", "norm"]
)
def test_a_layer_that_is_no_plain_matrix_or_convolution_takes_no_adapter(layer: nn.Module) -> None:
    with pytest.raises(Fault, match="CFG08"):
        Adapter(layer, 1.0, 0.0)


def test_the_adapters_of_layers_are_found_by_the_names_of_these() -> None:
    layers = {name: make() for name, make in LAYERS.items()}
    adapter = adapted("LoRA", layers["1x1"])
    assert dict(adapters_in(layers)) == {"1x1": adapter}


@pytest.fixture
def block() -> nn.Sequential:
    """A frozen layer with each kind of adapter, one after the other."""
    torch.manual_seed(0)
    layers = nn.Sequential(*(nn.Linear(12, 12) for _ in KINDS)).requires_grad_(False)
    for kind, layer in zip(KINDS, layers, strict=True):
        learned(adapted(kind, layer, dropout=0.3))
    return layers


@pytest.mark.slow
def test_a_block_with_adapters_of_every_kind_compiles_to_one_graph(block: nn.Sequential) -> None:
    whole = torch.compile(block.eval(), backend="eager", fullgraph=True)  # a break in the graph would be an error
    x = example(block[0])
    torch.testing.assert_close(whole(x), block(x))


@pytest.mark.parametrize("reentrant", [True, False])
def test_activations_that_are_computed_twice_leave_gradients_as_they_are(block: nn.Sequential, reentrant: bool) -> None:
    gradients = []
    for twice in (False, True):
        torch.manual_seed(3)
        x = example(block[0]).requires_grad_()
        out = checkpoint(block, x, use_reentrant=reentrant) if twice else block(x)
        out.square().sum().backward()
        gradients.append({name: parameter.grad for name, parameter in block.named_parameters()})
        block.zero_grad()
    assert any(gradient is not None for gradient in gradients[0].values())
    assert differences(*gradients) == []
