"""Adapters in whole runs: beside a base that is read from a file, resumed to the bit, out into files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.adapter_reader import read_by_others
from support.compvis import config_of, random_checkpoint
from support.equality import differences, final_state
from support.runs import TINY, load, newest_run
from torch import Tensor

from ldm.files.read import read_content
from ldm.files.write import write_safetensors
from ldm.keys.averaged import SCALARS
from ldm.keys.unet import compvis_unet_names
from ldm.modules.networks.unet import UNet
from lun.sample.command import run as sample

Lun = Callable[..., int]


def what_trains(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "trains.json").read_text("utf-8"))
    return found


KINDS = {"to_q": "LoRA", "to_k": "DoRA", "to_v": "LoHa", "to_out.0": "LoKr", "conv1": "LoRA", "proj_in": "DoRA"}
RULES = ", ".join(
    f"{kind}{number}: {{match: 'unet.*{name}', kind: {{target: ldm.adapters.{kind},"
    " params: {rank: 2, alpha: 1.0, dropout: 0.3}}}"
    for number, (name, kind) in enumerate(KINDS.items())
)
ADAPTED = [
    f"model.params.adapter_config={{target: ldm.adapters.Adapters, params: {{rules: {{{RULES}}}}}}}",
    "model.params.cond_stage_trainable=false",
    "model.params.scheduler_config.params.total_steps=4",
]
IN_HALF = "lightning.trainer.precision={target: lun.strategies.precision.Bf16Mixed, params: {frozen_half: true}}"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Path:
    """A whole checkpoint of random weights."""
    file = tmp_path_factory.mktemp("base") / "sd.safetensors"
    write_safetensors(file, random_checkpoint(config_of([TINY], pictures)))
    return file


def diffusers_names_of() -> list[tuple[str, str]]:
    """(diffusers' key, key in a whole checkpoint) of the UNet's tensors."""
    keys = UNet(**config_of([TINY], Path())["model"]["params"]["unet_config"]["params"]).network.state_dict()
    return [(key, "model.diffusion_model." + name) for key, name in compvis_unet_names(keys).items()]


def stored(logs: Path) -> dict[str, Any]:
    return load(newest_run(logs) / "checkpoints/last.ckpt")


def test_checkpoints_hold_adapters_alone_and_two_steps_and_two_more_are_four(
    lun: Lun, tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, words = tmp_path / "logs", ["-t", *ADAPTED, IN_HALF, "lightning.trainer.accumulate_grad_batches=2"]
    assert lun(*words, "--init-from", str(base), "-n", "straight", "lightning.trainer.max_steps=4") == 0
    straight = final_state(newest_run(logs))
    assert {name for name in straight["state_dict"] if "adapter" not in name} <= set(SCALARS)
    assert straight["base"]["given"] == dict.fromkeys(straight["base"]["sha256"], str(base))
    assert lun(*words, "--init-from", str(base), "-n", "split", "lightning.trainer.max_steps=2") == 0
    run = newest_run(logs)
    assert lun("-t", "-r", str(run), "lightning.trainer.max_steps=4", base=False) == 0
    assert differences(straight, final_state(run)) == []

    other = tmp_path / "other.safetensors"
    write_safetensors(other, random_checkpoint(config_of([TINY], tmp_path), seed=1))
    capsys.readouterr()
    assert lun("-t", "-r", str(run), f"model.params.ckpt_path={other}", base=False) == 2
    told = capsys.readouterr().err
    assert "RES05" in told and "another base" in told and str(base) in told and str(other) in told


def test_a_base_from_scratch_stays_in_the_checkpoint_and_adapters_stay_precise_on_a_base_in_half(
    lun: Lun, tmp_path: Path
) -> None:
    assert lun("-t", *ADAPTED, "lightning.trainer.max_steps=1", "lightning.trainer.precision=bf16-true") == 0
    (group,) = what_trains(newest_run(tmp_path / "logs"))["groups"]
    assert group["names"] and all(".adapter." in name for name in group["names"])
    state: dict[str, Tensor] = stored(tmp_path / "logs")["state_dict"]
    assert "base" not in stored(tmp_path / "logs")
    assert any(name.startswith("first_stage_model.") for name in state)
    adapters = [name for name in state if ".adapter." in name and not name.startswith("model_ema.")]
    assert adapters and all(state[name].dtype == torch.float32 for name in adapters)
    assert state["first_stage_model.quant_conv.weight"].dtype == torch.bfloat16


def converted(source: Path, out: Path, *words: str) -> int:
    from lun.convert.command import run

    return run([str(source), str(out), *words])


def test_a_run_becomes_a_file_of_adapters_that_other_programs_read_or_a_whole_model(
    lun: Lun, tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-t", *ADAPTED, "--init-from", str(base), "lightning.trainer.max_steps=2", "model.base_learning_rate=0.1"]
    assert lun(*words, "lightning.callbacks.export={target: lun.callbacks.Export, params: {dtype: null}}") == 0
    run = newest_run(tmp_path / "logs")
    assert converted(run, tmp_path / "a.safetensors", "--to", "kohya") == 0
    assert converted(run, tmp_path / "whole.safetensors", "--to", "ldm", "--merge") == 0
    adapter, whole, before = (
        read_content(file) for file in (tmp_path / "a.safetensors", tmp_path / "whole.safetensors", base)
    )
    (exported,) = (run / "exports").glob("*.safetensors")
    assert "stable-diffusion-v1/lora" in exported.with_suffix(".md").read_text()
    assert differences(read_content(exported).state, adapter.state) == []
    assert adapter.facts["ss_base_model_version"] == "sd_v1"
    assert adapter.facts["ss_network_module"] == "lycoris.kohya"
    layers: dict[str, dict[str, Tensor]] = {}
    for name, tensor in adapter.state.items():
        key, _, end = name.partition(".")
        layers.setdefault(key, {})[end] = tensor
    names = {name: "lora_unet_" + key.removesuffix(".weight").replace(".", "_") for key, name in diffusers_names_of()}
    moved = 0
    for name, weight in whole.state.items():
        if (tensors := layers.get(names.get(name, ""))) is None:
            assert torch.equal(weight, before.state.get(name, weight)), name
            continue
        moved += 1
        torch.testing.assert_close(weight, read_by_others(before.state[name], tensors), rtol=1e-5, atol=1e-6)
        assert not torch.equal(weight, before.state[name])
    assert moved == len(layers) > 5
    drawn = [
        "red noise",
        "--steps",
        "1",
        "--adapter",
        f"{tmp_path / 'a.safetensors'}:0.5",
        "-o",
        str(tmp_path / "drawn"),
    ]
    assert sample([str(run), *drawn]) == 0
    (tmp_path / "alone.ckpt").write_bytes((run / "checkpoints/last.ckpt").read_bytes())
    capsys.readouterr()
    assert converted(tmp_path / "alone.ckpt", tmp_path / "c.safetensors", "--to", "ldm") == 4
    assert "holds adapters and no whole model" in capsys.readouterr().err
    assert converted(run, tmp_path / "d.safetensors", "--to", "diffusers") == 4
    message = capsys.readouterr().err
    assert "diffusers reads LoRA alone" in message and "--extract BASE --rank error=0.1" in message
    extraction = ("--to", "diffusers", "--extract", str(base), "--rank", "error=0.01")
    assert converted(run, tmp_path / "d.safetensors", *extraction) == 0
    lora = read_content(tmp_path / "d.safetensors")
    assert 0 < float(lora.facts["lun.extracted.error"]) <= 0.01
    (name,) = [name for name in lora.state if name.endswith("down_blocks.0.resnets.0.conv1.lora_B.weight")]
    product = lora.state[name].flatten(1) @ lora.state[name.replace("_B", "_A")].flatten(1)
    key = "model.diffusion_model.input_blocks.1.0.in_layers.2.weight"
    difference = (whole.state[key] - before.state[key]).flatten(1)
    assert (product - difference).norm() <= 0.011 * difference.norm()
    assert converted(base, tmp_path / "b.safetensors", "--to", "kohya") == 4
    assert "holds no adapters" in capsys.readouterr().err


def test_adapters_over_a_quantised_base_resume_to_the_bit_and_merge_into_the_files_own_numbers(
    lun: Lun, tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = "{match: 'unet.*attn*', kind: {target: ldm.adapters.LoRA, params: {rank: 2, dropout: 0.3}}}"
    adapted = f"model.params.adapter_config={{target: ldm.adapters.Adapters, params: {{rules: {{one: {rule}}}}}}}"
    words = ["-t", *ADAPTED[1:], adapted, "model.params.base_config={target: ldm.adapters.Int8}", IN_HALF]
    logs = tmp_path / "logs"
    assert lun(*words, "lightning.trainer.max_steps=1") == 2
    assert "a quantised base has to come from a file" in capsys.readouterr().err
    words += ["--init-from", str(base), "model.base_learning_rate=0.1"]
    assert lun(*words, "-n", "straight", "lightning.trainer.max_steps=4") == 0
    assert "M of it in 9.7 bits" in capsys.readouterr().out
    straight = final_state(newest_run(logs))
    assert {name for name in straight["state_dict"] if "adapter" not in name} <= set(SCALARS)
    assert lun(*words, "-n", "split", "lightning.trainer.max_steps=2") == 0
    run = newest_run(logs)
    unquantised = ["model.params.base_config=null", "lightning.trainer.max_steps=2"]
    assert lun(*words, *unquantised, "-n", "whole") == 0
    other = final_state(newest_run(logs))
    assert differences(final_state(run)["state_dict"], other["state_dict"]) != [], "nothing was quantised"
    assert final_state(run)["base"] == other["base"], "the hash is that of the file's tensors"
    assert lun("-t", "-r", str(run), "lightning.trainer.max_steps=4", base=False) == 0
    assert differences(straight, final_state(run)) == []

    merged = tmp_path / "whole.safetensors"
    assert converted(run, merged, "--to", "ldm", "--merge", "--no-ema") == 0
    whole, before = read_content(merged).state, read_content(base).state
    names = dict(diffusers_names_of())
    trained = straight["state_dict"]
    moved = [name for name in whole if name in before and not torch.equal(whole[name], before[name])]
    assert moved and all("attn" in name or "transformer_blocks" in name for name in moved)
    for name in (name for name in names if names[name] in moved):
        beside = f"model.diffusion_model.network.{name.removesuffix('.weight')}.adapter."
        change = trained[beside + "up"] @ trained[beside + "down"]
        torch.testing.assert_close(whole[names[name]], before[names[name]] + change, rtol=1e-5, atol=1e-6)
    assert sample([str(run), "red noise", "--steps", "1", "-o", str(tmp_path / "drawn")]) == 0
