"""What can be counted of a training step without a GPU: kernels launched, bytes allocated, waits of the host.

    python tests/bench/counts.py [--steps 3] [--json FILE]

On a device that is none (`support.pretend_device`): tensors of the CPU that know they are not there. An operation that
computes on them is one launch, whatever kernels it takes; views, allocations and reads are none. The network has the
686 tensors and all operations of Stable Diffusion 1.x with 32 channels, in fp32, with AdamW as each chooses it on CUDA:
the script's `foreach`, the program's fused. Without averaged weights, which the program keeps beside the device.
Of compiled blocks the calls in Inductor's code are counted, of its kernels and of libraries. With CUDA graphs a
block, or the network, is one launch a pass, and one that copies what it is given.
"""

import without_deepspeed  # isort: skip  # noqa: F401

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from compiled_counts import Saved, computes, saved
from lightning.pytorch import Callback
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.strategies import SingleDeviceStrategy
from measurements import GRAPHS, SCRIPT
from program import ROOT
from race import OURS
from report import Row, present
from small_model import Recipe
from step import Field
from support.pretend_device import DEVICE, Built, PretendDevice, There
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ldm.lightning_classes import as_lightning
from lun.callbacks import Divergence, SmoothedProgressBar, Throughput
from lun.cli import parser
from lun.loop.position_callback import FollowPosition
from lun.run.lightning_trainer import ProgramTrainer
from lun.run.session import Session
from lun.run.settings import look_at_settings

aten = torch.ops.aten
READ = ("_local_scalar_dense", "is_nonzero")


class Tally(NamedTuple):
    """What there was in all, or in a step."""

    launches: float = 0
    allocated: float = 0
    reads: float = 0

    def since(self, earlier: "Tally", steps: int) -> "Tally":
        return Tally(*((now - before) / steps for now, before in zip(self, earlier, strict=True)))


class CountingDevice(PretendDevice):
    """Counts launches and the bytes of new storages as well."""

    def __init__(self) -> None:
        super().__init__()
        self.launches, self.allocated = 0, 0

    def tally(self) -> Tally:
        return Tally(self.launches, self.allocated, sum(self.reads.values()))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {_storage(one) for one in tree_leaves((args, kwargs)) if isinstance(one, There)}
        result = super().__torch_dispatch__(func, types, args, kwargs)
        made = [one for one in tree_leaves(result) if isinstance(one, There)]
        new = {_storage(one): one.inner.untyped_storage().nbytes() for one in made if _storage(one) not in given}
        self.allocated += sum(new.values())
        name = func._schema.name.removeprefix("aten::")
        self.launches += bool(given or made) and computes(func) and name not in READ
        return result if func._schema.returns else None


def _storage(tensor: There) -> int:
    return tensor.inner.untyped_storage().data_ptr()


@contextmanager
def as_cuda() -> Iterator[None]:
    """torch's optimizers and clipping take the pretended device for one that has their kernels for many tensors."""
    with ExitStack() as stack:
        stack.enter_context(patch("torch.nn.utils.clip_grad._has_foreach_support", lambda *_: True))
        stack.enter_context(patch("torch.optim.optimizer._get_fused_kernels_supported_devices", lambda: [DEVICE.type]))
        stack.enter_context(patch("lun.callbacks.divergence.READ_LATE", (DEVICE.type,), create=True))
        stack.enter_context(patch("torch.nn.functional.scaled_dot_product_attention", attention))
        # autocast, which nothing here is under, knows no such device
        stack.enter_context(patch.object(torch, "is_autocast_enabled", lambda *_: False))
        stack.enter_context(patch.object(torch, "autocast", lambda *_, **__: nullcontext()))
        yield


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch's attention as one launch a pass, as on CUDA; of a device that it does not know it makes ten."""
    given = {"dropout_p": dropout_p, "is_causal": is_causal, "attn_mask": attn_mask, "scale": scale}
    result: Tensor = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, **given)[0]
    return result


def steps_of(act: Callable[[], object], device: CountingDevice, steps: int) -> Tally:
    """Mean of the steps after the first one, in which optimizers make their states."""
    act()
    before = device.tally()
    for _ in range(steps):
        act()
    return device.tally().since(before, steps)


def of_script(field: Field, steps: int) -> Tally:
    device, script = CountingDevice(), field.script()
    with as_cuda(), patch.object(script.average, "step", lambda *_: None), Built(), device:
        return steps_of(script.begin(DEVICE, foreach=True).step, device, steps)


class Accelerator(CPUAccelerator):
    def setup_device(self, device: torch.device) -> None:
        """Any will do."""


class AfterSteps(Callback):
    """The tally at the end of each step."""

    def __init__(self, device: CountingDevice) -> None:
        self.device = device
        self.tallies: list[Tally] = []

    def on_train_batch_end(self, *_: Any) -> None:
        self.tallies.append(self.device.tally())


def of_program(field: Field, steps: int) -> Tally:
    """The program's own trainer, callbacks and loop."""
    words = [*field.words, "-t", "model.params.use_ema=false", "model.params.optimizer_config.params.fused=true"]
    settings, faults = look_at_settings(parser.parse(words), None)
    if faults:
        raise ExceptionGroup("faults", faults)
    session = Session.prepare(settings, parser.parse(words), None)
    session.model.configure_model()  # reads its weights, which is not counted
    device = CountingDevice()
    after = AfterSteps(device)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    with as_cuda():
        trainer = ProgramTrainer(
            **quiet,
            strategy=SingleDeviceStrategy(DEVICE, Accelerator()),
            max_steps=steps + 1,
            max_epochs=-1,
            gradient_clip_val=1.0,
            limit_val_batches=0,
            callbacks=[
                as_lightning(one)
                for one in (FollowPosition(), Divergence(), SmoothedProgressBar(), Throughput(), after)
            ],
            default_root_dir=field.file.parent,
        )
        with Built(), device:
            trainer.fit(as_lightning(session.model), datamodule=as_lightning(session.data))
    return after.tallies[-1].since(after.tallies[0], steps)


def measure(recipe: Recipe, steps: int, compiled: bool = False) -> list[Row]:
    """A row for each: launches a step, and over the script's. `compiled` adds two, which takes a while."""
    with tempfile.TemporaryDirectory() as folder:
        field = Field(Path(folder), recipe)
        found = {SCRIPT: of_script(field, steps), OURS: of_program(field, steps)}
        less = saved(field.model, recipe) if compiled else None
    script = found[SCRIPT]
    rows = [
        Row(
            name,
            tally.launches,
            "launches",
            {
                "over the script": tally.launches / script.launches,
                "MiB allocated": tally.allocated / 2**20,
                "allocated, over the script": tally.allocated / script.allocated,
                "waits of the host": tally.reads,
            },
        )
        for name, tally in found.items()
    ]
    return rows if less is None else [*rows, *compiled_rows(less, found[OURS].launches, script.launches)]


def compiled_rows(less: Saved, written: float, script: float) -> list[Row]:
    """Launches of a step with compiled blocks and with CUDA graphs; `written` without, `script` of the script."""
    kernels = {
        "of Inductor": less.within.generated,
        "of Inductor, over the script": less.within.generated / script,
        "of libraries in blocks": less.within.libraries,
    }
    blocks = f"{OURS}, compile"
    ways = {blocks: less.compiled, GRAPHS[0]: less.replayed, GRAPHS[1]: less.whole}
    rows = []
    for name, fewer in ways.items():
        left = written - fewer
        beside = {"over the script": left / script, **(kernels if name == blocks else {})}
        rows.append(Row(name, left, "launches", beside))
    return rows


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--steps", type=int, default=3)
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    os.environ["LUN_THREADS"] = "1"
    torch.set_num_threads(1)
    compiled = (ROOT / "configs/options/compile.yaml").is_file()
    present("counts", measure(Recipe(width=32, size=64, batch=2), told.steps, compiled), told.json)


if __name__ == "__main__":
    main()
