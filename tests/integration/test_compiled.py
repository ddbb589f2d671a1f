"""A run with compiled blocks is the run without them, but for rounding; it goes on either way."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.compiled_graphs import graphs_compiled
from support.equality import differences, final_state
from support.runs import newest_run
from torch import Tensor, nn

import lun.callbacks.compute.compiled_blocks as callback
from ldm.modules.regional_compilation import INDUCTOR_CACHE, compile_blocks
from ldm.torch_internals import inductors_own_folder

Lun = Callable[..., int]
COMPILED = "lightning.callbacks.compiled_blocks={target: lun.callbacks.CompiledBlocks}"
WRITTEN = "lightning.callbacks.compiled_blocks=null"
PARAMS = "lightning.callbacks.compiled_blocks.params"
RANKS = "lightning.trainer.strategy"
UNET = "model.params.unet_config.params"
SMALL = [
    f"{UNET}.block_out_channels=[8]",
    f"{UNET}.down_block_types=[CrossAttnDownBlock2D]",
    f"{UNET}.up_block_types=[CrossAttnUpBlock2D]",
]
"""A network of three shapes of blocks."""


@pytest.fixture
def own_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither graphs nor the place of their code outlive a test, which begins as torch leaves the environment."""
    monkeypatch.setenv(INDUCTOR_CACHE, inductors_own_folder())
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def traced(own_code: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks become graphs that are run by torch as they are, to the bit, since Inductor takes seconds for each."""
    monkeypatch.setattr(callback, "compile_blocks", partial(compile_blocks, backend="eager"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([COMPILED, f"{RANKS}=deepspeed"], "strategy deepspeed"),
        ([COMPILED, f"{PARAMS}.activation_memory_budget=1.5"], "from 0 to 1"),
        ([COMPILED, f"{PARAMS}.cuda_graphs=true"], "CUDA graphs cannot be used on cpu"),
        ([COMPILED, f"{PARAMS}.cuda_graphs=true", "--accumulate_grad_batches", "2"], "windows of 2 micro-batches"),
        ([COMPILED, "model.params.unet_config.target=lun.callbacks.CompiledBlocks"], "repeated_blocks"),
    ],
)
def test_what_compiled_blocks_cannot_do_is_refused_before_anything_is_built(
    lun: Lun, words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lun("-t", *words) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()


def test_without_a_compiler_nothing_is_built(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert lun("-t", COMPILED) == 7
    assert "no-such-compiler" in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()


def both(lun: Lun, logs: Path, starts: list[str], *words: str) -> tuple[Path, Path]:
    """The runs of as many pairs of steps as written, and of one start after another for each pair."""
    assert lun("-t", "-n", "written", *until(2 * len(starts)), *words) == 0
    written = newest_run(logs)
    assert lun("-t", "-n", "compiled", starts[0], *until(2), *words) == 0
    run = newest_run(logs)
    for i, which in enumerate(starts[1:], start=2):
        assert lun("-r", str(run), "-t", which, *until(2 * i), base=False) == 0
    return written, run


def until(step: int) -> list[str]:
    """The settings that end a run there, with a constant rate, since a schedule knows where the first start ends."""
    ends = [f"lightning.trainer.max_steps={step}", "lightning.trainer.val_check_interval=2"]
    return [*ends, "model.params.scheduler_config=null"]


def test_a_run_that_goes_on_without_compiled_blocks_ends_as_one_that_never_had_them(
    lun: Lun, traced: None, pictures: Path, tmp_path: Path
) -> None:
    """Its averages, which are validated every two steps, included."""
    began = graphs_compiled()
    validation = f"data.params.validation={{target: lun.data.local.Local, params: {{data_root: {pictures}, size: 8}}}}"
    written, run = both(lun, tmp_path / "logs", [COMPILED, WRITTEN], validation)
    compiled = graphs_compiled() - began
    assert 0 < compiled <= 12  # at most one of each block
    assert [at for at in differences(final_state(run), final_state(written)) if "config" not in at] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_inductor_computes_the_weights_of_a_run_without_it(
    lun: Lun, own_code: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compiled lies in the program's cache. Blocks with convolutions are compiled as on a GPU."""

    def all_blocks(model: nn.Module, *settings: Any) -> int:
        return compile_blocks(model, *settings[:-1])

    monkeypatch.setattr(callback, "compile_blocks", all_blocks)
    written, run = both(lun, tmp_path / "logs", [COMPILED, WRITTEN, COMPILED], *SMALL)
    assert any(Path(os.environ["LUN_CACHE"], "inductor").rglob("*.so"))
    wanted: dict[str, Tensor] = final_state(written)["state_dict"]
    found: dict[str, Tensor] = final_state(run)["state_dict"]
    assert list(found) == list(wanted)
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, atol=1e-5, rtol=1e-4, msg=name)
