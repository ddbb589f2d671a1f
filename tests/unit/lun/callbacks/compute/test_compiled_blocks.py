"""Which runs compiled blocks have no place in, and what is then said."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.models import tiny_model

from ldm.errors import Fault
from ldm.models.autoencoder import AutoencoderKL
from lun.callbacks.compute import compiled_blocks
from lun.callbacks.compute.compiled_blocks import REFUSED, CompiledBlocks
from lun.strategies.combinations import TABLE


@pytest.mark.parametrize("budget", [-0.1, 1.1, float("nan")])
def test_a_budget_that_is_no_share_is_refused(budget: float) -> None:
    with pytest.raises(Fault, match="CFG08") as told:
        CompiledBlocks(activation_memory_budget=budget)
    assert "from 0 to 1" in told.value.why


@pytest.mark.parametrize("strategy", TABLE)
def test_every_strategy_takes_them_or_is_refused_by_name(strategy: str) -> None:
    found = fault_of(tiny_model(), strategy)
    assert (found is not None) == (strategy in REFUSED)
    assert found is None or strategy in str(found)


def test_a_quantised_base_is_refused() -> None:
    model = tiny_model()
    model.quantisation = object()
    found = fault_of(model, "one device")
    assert found is not None and "base_config" in found.fix


def test_a_model_without_blocks_is_refused() -> None:
    autoencoder = object.__new__(AutoencoderKL)
    found = fault_of(autoencoder, "one device")
    assert found is not None and "AutoencoderKL" in found.why


@pytest.mark.parametrize("target", ["unet.UNet", "mmdit.MMDiT", "compvis.UNetModel"])
def test_each_shipped_network_names_its_blocks(target: str) -> None:
    model = tiny_model()
    model.unet_config = {"target": f"ldm.modules.networks.{target}", "params": {}}
    assert fault_of(model, "one device") is None


@pytest.mark.parametrize(
    ("settings", "strategy", "device", "said"),
    [
        ({}, "one device", "cpu", "on cpu"),
        ({"gradient_checkpointing": True}, "one device", None, "gradient checkpointing"),
        *(({}, kind, None, f"strategy {kind}") for kind in TABLE if kind != "one device"),
    ],
)
def test_what_cuda_graphs_cannot_replay_is_refused_by_name(
    settings: dict[str, Any], strategy: str, device: str | None, said: str
) -> None:
    model = tiny_model()
    model.unet_config = {**model.unet_config, "params": {**model.unet_config["params"], **settings}}
    found = fault_of(model, strategy, CompiledBlocks(cuda_graphs=True), device)
    assert found is not None and said in str(found)


@pytest.mark.parametrize("wanted", [False, True])
def test_cuda_graphs_take_steps_of_one_micro_batch(wanted: bool) -> None:
    callback, model = CompiledBlocks(cuda_graphs=wanted), tiny_model()
    assert fault_of(model, "one device", callback) is None
    callback.require_whole_steps(SimpleNamespace(settings={}), model, [])
    several = SimpleNamespace(settings={"accumulate_grad_batches": 2})
    if not wanted:
        return callback.require_whole_steps(several, model, [])
    with pytest.raises(Fault, match="windows of 2"):
        callback.require_whole_steps(several, model, [])


@pytest.mark.parametrize(("device", "compiled"), [("cpu", False), ("cuda", True)])
def test_on_a_cpu_blocks_with_convolutions_stay_as_they_are_written(
    device: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(compiled_blocks, "keep_compiled", lambda: None)
    monkeypatch.setattr(compiled_blocks, "compile_blocks", lambda *given: asked.append(given[-1]) or 1)
    unused: Any = None
    model: Any = SimpleNamespace(device=torch.device(device))
    CompiledBlocks().on_fit_start(unused, model)
    assert asked == [compiled]


@pytest.mark.parametrize("wanted", [False, True])
def test_each_step_that_is_made_of_cuda_graphs_is_marked(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[int] = []
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: marked.append(1))
    unused: Any = None
    CompiledBlocks(cuda_graphs=wanted).on_train_batch_start(unused, unused, {}, 0)
    assert len(marked) == wanted


def fault_of(
    model: Any, strategy: str, callback: CompiledBlocks | None = None, device: str | None = None
) -> Fault | None:
    """What a run would be told, by default on a device that is not known yet."""
    try:
        (callback or CompiledBlocks()).require_run(model, strategy, device)
    except Fault as fault:
        return fault
    return None
