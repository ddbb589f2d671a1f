"""Every cell of the table of strategies and precisions: it works, or it is refused by name before anything is built."""

from typing import Any

import pytest

from ldm.errors import Fault
from ldm.models.autoencoder import AutoencoderKL
from lun.strategies.combinations import PRECISIONS, TABLE, require_combination, strategy_kind
from lun.strategies.execution import Execution, device_of
from lun.strategies.precision import policy_of
from lun.strategies.strategy_names import strategy_of

ZERO = {"target": "lun.strategies.deepspeed.DeepSpeed"}
REFUSED = {("fsdp", "16-mixed", "cpu"), ("fsdp", "16-mixed", "cuda"), ("deepspeed", "16-mixed", "cpu")}
REFUSED |= {(s, "bf16-master", d) for s in ("ddp", "fsdp", "deepspeed") for d in ("cpu", "cuda")}
CELLS = [(s, p, d) for s in TABLE for p in PRECISIONS for d in ("cpu", "cuda")]


def require_precision(arguments: dict) -> None:
    kind, policy = strategy_kind(arguments["strategy"]), policy_of(arguments["precision"])
    require_combination(kind, policy.name, device_of(arguments) == "cpu")


def plugin_for(arguments: dict) -> Any:
    policy = policy_of(arguments["precision"])
    execution = Execution(arguments, strategy_of(arguments["strategy"]), policy, device_of(arguments))
    return execution._plugin()


def trainer(strategy: str, precision: object, device: str = "cpu") -> dict[str, object]:
    named = {"one device": "auto", "deepspeed": ZERO}.get(strategy, strategy)
    return {"strategy": named, "precision": precision, "accelerator": device}


@pytest.mark.parametrize(("strategy", "precision", "device"), CELLS)
def test_a_cell_has_a_plugin_or_is_refused(strategy: str, precision: str, device: str) -> None:
    arguments = trainer(strategy, precision, device)
    if (strategy, precision, device) not in REFUSED:
        require_precision(arguments)
        plugin = plugin_for(arguments)
        assert plugin.precision == precision
        return
    with pytest.raises(Fault, match=f"precision {precision} cannot be used with strategy {strategy}") as refusal:
        require_precision(arguments)
    on_cpu_alone = (strategy, precision, "cuda") not in REFUSED
    assert refusal.value.id == ("DEV05" if on_cpu_alone else "CFG08") and refusal.value.fix
    assert on_cpu_alone is ("on the CPU" in refusal.value.what)


@pytest.mark.parametrize("strategy", [ZERO, "deepspeed", "deepspeed_stage_2"])
def test_an_autoencoder_under_deepspeed_is_refused(strategy: object) -> None:
    with pytest.raises(Fault, match="an autoencoder cannot be trained under DeepSpeed"):
        AutoencoderKL.refuse_trainer({"strategy": strategy})


@pytest.mark.parametrize("precision", ["bf16-master", {"target": "lun.strategies.precision.Bf16Master"}])
def test_an_autoencoder_in_bf16_master_is_refused(precision: object) -> None:
    with pytest.raises(Fault, match="an autoencoder cannot be trained in bf16-master"):
        AutoencoderKL.refuse_trainer({"precision": precision})


@pytest.mark.parametrize("given", [32, "32", None, "bf16", "bf16-mixed", 16, "16-mixed"])
def test_precisions_may_be_spelt_as_lightning_takes_them(given: object) -> None:
    require_precision(trainer("ddp", given))


@pytest.mark.parametrize("given", ["16-true", "64-true", "transformer-engine", "half"])
def test_a_precision_outside_the_table_is_refused_with_the_list(given: str) -> None:
    with pytest.raises(Fault, match=f"precision {given} is not among") as refusal:
        require_precision(trainer("one device", given))
    assert refusal.value.fix == "32-true, bf16-mixed, 16-mixed, bf16-true, bf16-master"


def test_a_recipe_sets_the_scaler() -> None:
    recipe = {"target": "lun.strategies.precision.Fp16Mixed", "params": {"init_scale": 8.0, "growth_interval": 7}}
    scaler = plugin_for(trainer("one device", recipe)).scaler
    assert (scaler.get_scale(), scaler.get_growth_interval()) == (8.0, 7)


def test_a_recipe_is_refused_like_its_name() -> None:
    with pytest.raises(Fault, match="16-mixed cannot be used with strategy fsdp"):
        require_precision(trainer("fsdp", {"target": "lun.strategies.precision.Fp16Mixed"}))
