"""DDP and FSDP2 on all GPUs of a machine (one will do) against one process with the same global batch; `-m gpu`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.ranks import Ranks
from support.runs import make_pictures
from support.together import averaged, distance, last, tiny, train

GPUS = max(1, min(2, torch.cuda.device_count()))
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm device")]

SAME = ["model.params.unet_config.params.dropout=0.0", "lightning.trainer.max_steps=6"]
ON_GPUS = [
    "lightning.trainer.accelerator=gpu",
    f"lightning.trainer.devices={GPUS}",
    f"data.params.batch_size={2 // GPUS}",
]
ON_GPUS += ["lightning.trainer.accumulate_grad_batches=2"]
ON_ONE = ["lightning.trainer.accelerator=gpu", "lightning.trainer.devices=1", "data.params.batch_size=4"]
STILL = ["lightning.trainer.max_steps=1", "model.base_learning_rate=0.0"]
PARAMS = "lightning.trainer.strategy.params"
FSDP = ["lightning.trainer.strategy.target=lun.strategies.fsdp.FSDP", f"{PARAMS}.block_size=500"]
STRATEGIES = {
    "ddp": ["lightning.trainer.strategy=ddp"],
    "fsdp": FSDP,
    "fsdp offloaded": [*FSDP, f"{PARAMS}.cpu_offload=true"],
    "fsdp computing twice": [*FSDP, f"{PARAMS}.activation_checkpointing=true"],
}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    both = "cpu:gloo,cuda:nccl"  # what lies in main memory is gathered there
    group = Ranks(tmp_path_factory.mktemp("ranks"), GPUS, RANKS_BACKEND=both, NVIDIA_TF32_OVERRIDE="0")
    yield group
    group.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Six steps in one process in float32: `one`, and `start`."""
    folder = tmp_path_factory.mktemp("alone")
    words = [*tiny(make_pictures(folder / "pictures", 11)), *SAME]
    with pytest.MonkeyPatch.context() as patch:  # the libraries may have read the environment long ago
        patch.setattr(torch.backends.cudnn, "allow_tf32", False)
        patch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
        assert train(folder / "one", [*words, *ON_ONE]) == 0
        assert train(folder / "start", [*words, *ON_ONE, *STILL]) == 0
    return folder, words


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_gpus_end_at_the_weights_of_one_process(
    strategy: str, ranks: Ranks, alone: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder, words = alone
    assert ranks(train, tmp_path, [*words, *ON_GPUS, *STRATEGIES[strategy]]) == [0] * GPUS
    found, one, start = last(tmp_path), last(folder / "one"), last(folder / "start")
    assert distance(found["state_dict"], one["state_dict"], start["state_dict"]) < 1e-3
    assert distance(averaged(found), averaged(one), averaged(start)) < 1e-3
