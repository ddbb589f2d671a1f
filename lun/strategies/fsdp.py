"""FSDP2: trained weights, gradients and optimizer state are spread over the ranks and gathered block by block."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.strategies.strategy import Strategy
from lightning.pytorch.trainer.states import TrainerFn
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from ldm.errors import Fault
from ldm.modules.gradient_checkpointing import compute_twice
from ldm.torch_internals import apply_to_tensors
from lun.strategies import checkpoint_parts, shards
from lun.strategies.blocks import blocks_of
from lun.strategies.half import frozen_to

WHERE = "lightning.trainer.strategy"


class FSDP(ModelParallelStrategy):
    """Full sharding by torch's `fully_shard`, with ordinary checkpoints.

    Sharded is what trains; what is frozen (first stage, text encoder, the base below adapters) lies whole on every
    device. In bfloat16 (mixed or true) weights are gathered in it, gradients are reduced and weights stepped in
    float32. Checkpoints are those of one process and resume under any strategy and number of ranks.

    block_size                   parameters from which a member of a list of layers is gathered on its own
    shard_frozen                 spread the frozen weights of networks that train as well: for a base below adapters
                                 that does not fit on one device, at the price of gathering it twice a micro-batch
    activation_checkpointing     compute activations twice instead of keeping them
    cpu_offload                  keep weights and optimizer state in main memory; steps are made there
    shard_size                   ranks that share one copy of the weights, the others hold further copies (HSDP): 8 on
                                 several machines of 8 GPUs; by default all ranks share one
    timeout_minutes              after which a rank that waits for the others gives up
    save_distributed_checkpoint  each rank writes its own part of a checkpoint into a folder beside the .ckpt file,
                                 instead of rank 0 all of it: nothing is gathered. What reads one kind reads the other
    process_group_backend  nccl, gloo, ...; null: as fits the device
    """

    model: Any

    def __init__(
        self,
        block_size: int = 5_000_000,
        shard_frozen: bool = False,
        activation_checkpointing: bool = False,
        cpu_offload: bool = False,
        shard_size: int | None = None,
        timeout_minutes: float = 30.0,
        process_group_backend: str | None = None,
        save_distributed_checkpoint: bool = False,
    ) -> None:
        super().__init__(
            tensor_parallel_size=1,
            save_distributed_checkpoint=False,  # torch's own kind of folder, which no other strategy reads
            process_group_backend=process_group_backend,
            timeout=timedelta(minutes=timeout_minutes),
        )
        self.block_size = block_size
        self.shard_frozen = shard_frozen
        self.activation_checkpointing = activation_checkpointing
        self.cpu_offload = cpu_offload
        self.shard_size = shard_size
        self.saves_in_parts = save_distributed_checkpoint
        self.states = checkpoint_parts.StateDicts()

    # Start

    def setup_environment(self) -> None:
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    def _get_process_group_backend(self) -> str:
        """Norms of offloaded gradients are summed on the CPU, where NCCL does not reach."""
        if self.cpu_offload and self.root_device.type == "cuda" and self._process_group_backend is None:
            return "cpu:gloo,cuda:nccl"
        return super()._get_process_group_backend()

    def setup(self, trainer: Trainer) -> None:
        """Shard the networks, whose weights are read by now, and make the optimizers of the shards."""
        assert self.accelerator is not None
        self.accelerator.setup(trainer)
        self.convert()
        if self.activation_checkpointing:
            compute_twice(self.lightning_module)
        self.shard()
        self.model_to_device()
        self.barrier()
        if trainer.state.fn == TrainerFn.FITTING:
            self.setup_optimizers(trainer)
        self.setup_precision_plugin()

    def convert(self) -> None:
        """In bf16-true only frozen parts are: parts of what trains are small, so that they can stay in float32."""
        model: nn.Module = self.lightning_module
        if self._precision == "bf16-true":
            frozen_to(model, torch.bfloat16)
        else:
            self.model = self.precision_plugin.convert_module(model)

    def shard(self) -> None:
        """Raises `Fault` CFG08 for a trained parameter that no shard holds: its gradient would never be reduced."""
        model: Any = self.lightning_module
        policy: OffloadPolicy = CPUOffloadPolicy(pin_memory=self.root_device.type == "cuda")
        how: dict[str, Any] = {"mesh": self.mesh(), "offload_policy": policy if self.cpu_offload else OffloadPolicy()}
        for unit in model.forward_units():
            whole = set() if self.shard_frozen else {p for p in unit.module.parameters() if not p.requires_grad}
            how |= {"mp_policy": self.mixed_precision(unit), "ignored_params": whole}
            for block in blocks_of(unit.module, self.block_size, whole):
                fully_shard(block, reshard_after_forward=True, **how)
            fully_shard(unit.module, reshard_after_forward=not unit.stays_whole, **how)
        outside = [n for n, p in model.named_parameters() if p.requires_grad and not isinstance(p, DTensor)]
        if outside:
            raise Fault(
                "CFG08",
                f"{type(model).__name__} cannot be sharded: {len(outside)} trained parameters lie outside the modules"
                f" that it names ({outside[0]} ...)",
                where=WHERE,
                why="gradients are reduced by these modules, so that these parameters would differ from rank to rank",
                fix=f"name their module in {type(model).__name__}.forward_units, or use {WHERE}=ddp",
            )

    def mesh(self) -> DeviceMesh:
        """All ranks in one dimension, or copies x shards."""
        if self.shard_size is None:
            return self.device_mesh["data_parallel"]
        if self.world_size % self.shard_size:
            raise Fault(
                "CFG08",
                f"{self.world_size} ranks cannot form copies of {self.shard_size} shards",
                where=f"{WHERE}.params.shard_size",
                fix="a number that divides the ranks: the GPUs of one machine",
            )
        sizes = (self.world_size // self.shard_size, self.shard_size)
        return init_device_mesh(self.root_device.type, sizes, mesh_dim_names=("replicate", "shard"))

    def mixed_precision(self, unit: Any) -> MixedPrecisionPolicy:
        """Autocast goes on within; this decides in what weights are gathered and gradients reduced."""
        if not self._precision.startswith("bf16") or unit.precise:
            return MixedPrecisionPolicy(cast_forward_inputs=False)
        return MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)

    @property
    def _precision(self) -> str:
        return str(getattr(self.precision_plugin, "precision", "32-true"))

    def model_to_device(self) -> None:
        """What is not sharded; shards are where they belong."""
        where = self.root_device
        apply_to_tensors(self.lightning_module, lambda t: t if isinstance(t, DTensor) else t.to(where))

    # Steps

    @contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        """Keep the gradients of a micro-batch that is not the window's last, instead of reducing them each time."""
        parts = [part for part in self.lightning_module.modules() if isinstance(part, FSDPModule)]
        try:
            for part in parts:
                part.set_requires_gradient_sync(False, recurse=False)
            yield
        finally:
            for part in parts:
                part.set_requires_gradient_sync(True, recurse=False)

    @property
    def ema_source(self) -> shards.ShardedParameters:
        """What the EMA averages."""
        return shards.ShardedParameters(self.lightning_module, self.states)

    # Checkpoints: those of one process. Weights are restored before they are sharded, optimizers after.

    @property
    def restore_checkpoint_after_setup(self) -> bool:
        return False

    @property
    def lightning_restore_optimizer(self) -> bool:
        return True

    def lightning_module_state_dict(self) -> dict[str, Any]:
        shards.let_go_of_whole(self.lightning_module)
        return shards.module_state(self.lightning_module, self.states.sharded)

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        inner = optimizer.optimizer if isinstance(optimizer, LightningOptimizer) else optimizer
        return shards.optimizer_state(inner, self.states.sharded)

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: str | Path, storage_options: Any = None) -> None:
        checkpoint_parts.save(self, checkpoint, filepath, storage_options)

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> dict[str, Any]:
        return Strategy.load_checkpoint(self, checkpoint_path, weights_only)

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        Strategy.load_model_state_dict(self, checkpoint, strict)

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        for optimizer, stored in zip(self.optimizers, checkpoint["optimizer_states"], strict=False):
            shards.load_optimizer_state(optimizer, stored)
