"""torch's insides: each still means what the program takes it for."""

import math
import os
from pathlib import Path

import pytest
import torch
from support.compiled_graphs import graphs_compiled
from torch import Tensor, nn
from torch._inductor import codecache
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.optim.lr_scheduler import LambdaLR

from ldm.torch_internals import (
    FakeTensorMode,
    TorchDispatchMode,
    apply_to_tensors,
    as_a_plain_tensor,
    can_leave_out,
    entries_of,
    flag_not_finite,
    identity_of,
    ignore_moves,
    inductors_own_folder,
    keep_activations,
    keep_every_graph,
    keep_headers,
    keep_own_tensors,
    leave_out,
    scales_inside_its_step,
    set_last_rates,
    tensor_without_memory,
    tree_leaves,
    unset_fake_temporarily,
    writes_into_its_arguments,
)

FOLDER = "TORCHINDUCTOR_CACHE_DIR"


class Named(Tensor):
    """A subclass that notes which functions reach it."""

    heard: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Named.heard.append(func.__name__)
        with as_a_plain_tensor():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError


def test_a_tensor_without_memory_has_shape_and_type_and_nothing_else() -> None:
    made = tensor_without_memory(Named, (1 << 20, 1 << 22), torch.float16)  # 8 TiB, if it took any
    assert (type(made), made.shape, made.dtype, made.device.type) == (Named, (1 << 20, 1 << 22), torch.float16, "cpu")


def test_within_the_plain_mode_a_subclass_hears_of_nothing() -> None:
    tensor = tensor_without_memory(Named, (2,), torch.float32)
    Named.heard.clear()
    with as_a_plain_tensor():
        assert tensor.dim() == 1
    assert Named.heard == []
    assert tensor.dim() == 1
    assert Named.heard == ["dim"]


def test_operations_that_write_are_told_from_those_that_do_not() -> None:
    class Notes(TorchDispatchMode):
        found: dict[str, bool] = {}

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.found[str(func)] = writes_into_its_arguments(func)
            return func(*args, **(kwargs or {}))

    tensor = torch.ones(2)
    with Notes() as notes:
        tensor.add(1)
        tensor.add_(1)
    assert notes.found == {"aten.add.Tensor": False, "aten.add_.Tensor": True}


def test_a_module_that_keeps_its_own_tensors_is_moved_without_them() -> None:
    module = torch.nn.Linear(2, 2)
    module.child = torch.nn.Linear(2, 2)
    keep_own_tensors(module)
    torch.nn.Sequential(module).to("meta")
    assert module.weight.device.type == "cpu" and module.child.weight.is_meta


def test_memory_has_one_identity_and_other_memory_another_also_where_it_is_fake() -> None:
    with FakeTensorMode():
        tensor, other = torch.ones(2), torch.ones(2)
        found = [identity_of(one.untyped_storage()) for one in (tensor, tensor.view(1, 2), other)]
        with unset_fake_temporarily():
            assert torch.ones(2).sum() == 2
    assert found[0] == found[1] != found[2]


def test_each_tensor_of_a_module_is_put_in_its_place() -> None:
    module = nn.BatchNorm1d(2)
    apply_to_tensors(module, lambda tensor: tensor + 1)
    assert module.weight.tolist() == [2, 2] and module.running_mean is not None
    assert module.running_mean.tolist() == [1, 1] and isinstance(module.weight, nn.Parameter)


def test_a_module_tells_of_its_empty_places_and_of_what_it_holds_twice() -> None:
    module = nn.Linear(2, 2, bias=False)
    module.inner = module.again = nn.Identity()
    module.register_buffer("scale", torch.ones(1), persistent=False)
    held = entries_of(module)
    assert held.parameters == {"weight": module.weight, "bias": None}
    assert held.children == {"inner": module.inner, "again": module.inner}
    assert (held.buffers["scale"], held.transient) == (module.scale, {"scale"})


def test_rates_that_are_set_are_the_last_until_the_next_step() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    schedule = LambdaLR(optimizer, lambda step: 0.5)
    set_last_rates(schedule, [3.0])
    assert schedule.get_last_lr() == [3.0]
    optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.5]


def test_a_fused_adam_scales_inside_its_step_and_another_does_not() -> None:
    weights = [nn.Parameter(torch.ones(1))]
    assert scales_inside_its_step(torch.optim.AdamW(weights, fused=True))
    assert not scales_inside_its_step(torch.optim.AdamW(weights))


def test_leaves_of_nested_structures_are_found_in_order() -> None:
    assert tree_leaves({"a": [1, (2, 3)], "b": 4}) == [1, 2, 3, 4]


def test_a_module_that_ignores_moves_stays_while_its_neighbour_is_moved() -> None:
    pair = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    ignore_moves(pair[0])
    pair.to("meta")
    assert [layer.weight.device.type for layer in pair] == ["cpu", "meta"]


@pytest.mark.parametrize(("number", "flagged"), [(2.0, 0.0), (math.nan, 1.0), (math.inf, 1.0), (-math.inf, 1.0)])
def test_a_flag_among_numbers_tells_whether_all_others_are_finite(number: float, flagged: float) -> None:
    numbers = torch.tensor([1.0, number, 0.0])
    flag_not_finite(numbers[:-1], numbers[-1], torch.ones(()))
    assert numbers[2] == flagged and numbers[:2].equal(torch.tensor([1.0, number])) is not math.isnan(number)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_a_fused_adam_leaves_out_what_a_flag_on_its_device_says(kind) -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer = kind([weight], lr=0.1, weight_decay=0.1, fused=True)
    assert can_leave_out(optimizer) and not can_leave_out(kind([weight], lr=0.1, foreach=True))

    def step(gradient: float, flag: float) -> list[Tensor]:
        weight.grad = torch.full((3,), gradient)
        leave_out(optimizer, torch.tensor(flag))
        optimizer.step()
        return [weight.detach().clone(), *(one.clone() for one in optimizer.state[weight].values())]

    step(float("nan"), 1.0)
    assert weight.equal(torch.ones(3))
    before = step(1.0, 0.0)
    assert not weight.equal(torch.ones(3))
    assert all(map(torch.equal, before, step(float("nan"), 1.0)))
    leave_out(optimizer, None)
    weight.grad.fill_(1.0)
    optimizer.step()
    assert not weight.equal(before[0])


def test_more_graphs_of_a_function_are_kept_than_torch_would() -> None:
    keep_every_graph()
    compiled = torch.compile(lambda x: x + 1, dynamic=False, backend="eager")
    began = graphs_compiled()
    for _ in range(2):
        for size in range(2, 12):
            compiled(torch.ones(size))
    assert graphs_compiled() - began == 10
    torch._dynamo.reset()


def test_graphs_that_were_made_for_other_activations_are_forgotten() -> None:
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    began = graphs_compiled()
    for budget in (1.0, 0.5, 0.5, 1.0):
        keep_activations(budget)
        compiled(torch.ones(3))
    assert graphs_compiled() - began == 3


def test_inductor_writes_its_own_folder_into_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, "")
    monkeypatch.delenv(FOLDER)
    assert cache_dir() == os.environ[FOLDER] == inductors_own_folder()


def test_inductor_looks_up_where_headers_lie_when_it_compiles_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_HEADER_DIR", "_HEADER_LOCK_DIR"):
        monkeypatch.setattr(codecache, name, "before")
    keep_headers(tmp_path)
    assert str(tmp_path) == codecache._HEADER_DIR and str(tmp_path / "locks") == codecache._HEADER_LOCK_DIR
    assert {"_HEADER_DIR", "_HEADER_LOCK_DIR"} <= {*codecache._precompile_header.__wrapped__.__code__.co_names}
