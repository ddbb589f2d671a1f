"""Compiled blocks on two ranks: the weights, averages and checkpoints of one process without them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from diffusers.models.attention import BasicTransformerBlock
from support.compiled_graphs import graphs_compiled
from support.ranks import Ranks
from support.runs import newest_run
from support.together import GROUPS, MICRO, ONE, SAME, STEPS, STILL, goes_on, last, off, tiny, train, until

import lun.callbacks.compute.compiled_blocks as callback
from ldm.modules.networks.unet import UNet
from ldm.modules.regional_compilation import compile_blocks

COMPILED = "lightning.callbacks.compiled_blocks={target: lun.callbacks.CompiledBlocks}"
WRITTEN = "lightning.callbacks.compiled_blocks=null"
STRATEGIES = {
    "ddp": ["lightning.trainer.devices=2", "lightning.trainer.strategy=ddp"],
    "fsdp": [
        "lightning.trainer.devices=2",
        "lightning.trainer.strategy={target: lun.strategies.fsdp.FSDP, params: {block_size: 500}}",
    ],
}
UNET = "model.params.unet_config.params"
SMALL = [
    f"{UNET}.block_out_channels=[8]",
    f"{UNET}.down_block_types=[CrossAttnDownBlock2D]",
    f"{UNET}.up_block_types=[CrossAttnUpBlock2D]",
]
"""A network of three shapes of blocks."""


def traced(logs: Path, words: Sequence[str]) -> tuple[int, int]:
    """`train`, in which transformer blocks become graphs that torch runs as they are: exit code, number of graphs."""
    began = graphs_compiled()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UNet, "repeated_blocks", (BasicTransformerBlock,))
        patch.setattr(callback, "compile_blocks", partial(compile_blocks, backend="eager"))
        code = train(logs, words)
    torch._dynamo.reset()
    return code, graphs_compiled() - began


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_blocks_as_graphs_end_at_the_weights_of_one_process_without_them(
    strategy: str, ranks: Ranks, plain: tuple[Path, list[str]], pictures: Path, tmp_path: Path
) -> None:
    """All blocks here are of one shape, and nothing between ranks cuts its graph."""
    folder, _ = plain
    words = [*tiny(pictures, *SAME, *GROUPS), *STRATEGIES[strategy], *MICRO, COMPILED]
    assert ranks(traced, tmp_path, words) == [(0, 1), (0, 1)]
    assert off(tmp_path, folder) < 1e-4
    assert list(last(tmp_path)["state_dict"]) == list(last(folder / "one")["state_dict"])


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_inductor_computes_the_weights_of_one_process_that_never_had_it(pictures: Path, tmp_path: Path) -> None:
    """Also in a run that goes on without it. Under FSDP2 what DDP compiled is found in the cache, if it is alike."""
    words, cache = tiny(pictures, *SAME, *SMALL), str(tmp_path / "cache")
    assert train(tmp_path / "one", [*words, *ONE]) == 0
    assert train(tmp_path / "start", [*words, *ONE, *STILL]) == 0
    group = Ranks(tmp_path / "ranks", deadline=1500.0, LUN_CACHE=cache)
    try:
        for strategy, two in STRATEGIES.items():
            run = tmp_path / strategy
            assert group(train, run, [*words, *two, *MICRO, COMPILED, until(STEPS // 2)]) == [0, 0]
            assert group(goes_on, newest_run(run), [WRITTEN, until(STEPS)]) == [0, 0]
            assert off(run, tmp_path) < 1e-4
    finally:
        group.close()
    assert any(Path(cache, "inductor").rglob("*.so"))
