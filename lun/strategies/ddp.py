"""Data parallel: every rank holds the whole model, gradients are averaged."""

from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import Any

from lightning.pytorch.strategies import DDPStrategy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from lun.strategies import checkpoint_parts
from lun.strategies.shares import Shares

# Renamed in torch 2.13.
_SYNC_BUFFERS = (
    "forward_sync_buffers"
    if "forward_sync_buffers" in signature(DistributedDataParallel).parameters
    else "broadcast_buffers"
)


class DDP(DDPStrategy):
    """Lightning's DDP as this program needs it; the strategy of every run on several devices that names no other.

    Buffers are not broadcast: ours never change by what a rank sees, and a broadcast in every forward would hang where
    ranks validate different numbers of batches. Gradients are views of the buckets that are reduced, which saves their
    size in memory. The EMA is kept by the ranks together (`Shares`).

    find_unused_parameters       look in every step for parameters without a gradient; without it such a parameter is an
                                 error, as it should be where all are meant to learn
    static_graph                 promise that every step uses the same parameters: the search is then done once
    bucket_cap_mb                megabytes reduced at a time; 200 to 400 beyond 64 GPUs
    timeout_minutes              after which a rank that waits for the others gives up
    process_group_backend        nccl on GPUs, gloo on CPUs unless said otherwise
    save_distributed_checkpoint  each rank writes an equal part of a checkpoint into a folder beside the .ckpt file,
                                 instead of rank 0 all of it. What reads one kind reads the other
    """

    def __init__(
        self,
        find_unused_parameters: bool = False,
        static_graph: bool = False,
        bucket_cap_mb: int = 25,
        timeout_minutes: float = 30.0,
        process_group_backend: str | None = None,
        save_distributed_checkpoint: bool = False,
    ) -> None:
        super().__init__(
            process_group_backend=process_group_backend,
            timeout=timedelta(minutes=timeout_minutes),
            find_unused_parameters=find_unused_parameters,
            static_graph=static_graph,
            bucket_cap_mb=bucket_cap_mb,
            gradient_as_bucket_view=True,
            **{_SYNC_BUFFERS: False},
        )
        self.saves_in_parts = save_distributed_checkpoint
        self.states = checkpoint_parts.StateDicts()

    def configure_ddp(self) -> None:
        """A model whose optimizers take turns leaves the parameters of the other one unused, and says so."""
        if getattr(self.lightning_module, "leaves_parameters_unused", False):
            self._ddp_kwargs["find_unused_parameters"] = True
        super().configure_ddp()

    @property
    def ema_source(self) -> Shares:
        """What the EMA of this rank averages."""
        return Shares(self.lightning_module, self.states)

    # Checkpoints: one ordinary file, or the ranks' parts of it

    def lightning_module_state_dict(self) -> dict[str, Any]:
        state = super().lightning_module_state_dict()
        return checkpoint_parts.share_of_parameters(self.lightning_module, state) if self.states.sharded else state

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        state = super().optimizer_state(optimizer)
        whole: dict[str, Any] = checkpoint_parts.share_of(state) if self.states.sharded else state
        return whole

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: str | Path, storage_options: Any = None) -> None:
        checkpoint_parts.save(self, checkpoint, filepath, storage_options)
