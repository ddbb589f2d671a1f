"""Compiled blocks on a GPU, as they are and as CUDA graphs, learn what blocks as written do; `-m gpu`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.runs import make_pictures
from support.together import STILL, distance, last, tiny, train

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm device")]

COMPILED = "lightning.callbacks.compiled_blocks={target: lun.callbacks.CompiledBlocks}"
PARAMS = "lightning.callbacks.compiled_blocks.params"
WAYS = {
    "compiled": [COMPILED],
    "every size by itself": [COMPILED, f"{PARAMS}.dynamic=false"],
    "graphs": [COMPILED, f"{PARAMS}.cuda_graphs=true"],
    "graphs of every size by itself": [COMPILED, f"{PARAMS}.cuda_graphs=true", f"{PARAMS}.dynamic=false"],
}
ON_ONE = [
    "model.params.unet_config.params.dropout=0.0",
    "lightning.trainer.accelerator=gpu",
    "lightning.trainer.devices=1",
    "lightning.trainer.max_steps=8",  # graphs are warmed up in the first, recorded in the second
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    """A run without the callback: `one`, and `start`."""
    folder = tmp_path_factory.mktemp("written")
    words = [*tiny(make_pictures(folder / "pictures", 11)), *ON_ONE]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.cudnn, "allow_tf32", False)
        patch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
        assert train(folder / "one", words) == 0
        assert train(folder / "start", [*words, *STILL]) == 0
        yield folder, words


@pytest.mark.parametrize("way", WAYS)
def test_compiled_blocks_end_at_the_weights_of_blocks_as_written(
    way: str, written: tuple[Path, list[str]], tmp_path: Path
) -> None:
    torch._dynamo.reset()
    skipped = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
    folder, words = written
    assert train(tmp_path, [*words, *WAYS[way]]) == 0
    found, wanted, start = (last(run)["state_dict"] for run in (tmp_path, folder / "one", folder / "start"))
    assert distance(found, wanted, start) < 1e-3
    if "graphs" in way:
        assert recorded() > 0
        assert torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] == skipped


def recorded() -> int:
    """How many CUDA graphs torch keeps."""
    from torch._inductor.cudagraph_trees import get_manager

    manager = get_manager(torch.cuda.current_device(), create_if_none_exists=False)
    return 0 if manager is None else int(next(manager.graph_counter))
