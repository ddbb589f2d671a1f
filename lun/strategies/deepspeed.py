"""DeepSpeed's ZeRO, stages 1 to 3, on GPUs and on CPU ranks, with ordinary checkpoints."""

import logging
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from importlib.util import find_spec
from math import log2
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy
from lightning.pytorch.strategies.strategy import Strategy
from torch import Tensor
from torch.optim import Optimizer

from ldm.errors import Fault
from ldm.missing_packages import install_line
from lun.strategies import checkpoint_parts
from lun.strategies.zero import checkpoint as zero_checkpoint
from lun.strategies.zero.autocast import InsideEngine
from lun.strategies.zero.limits import (
    fit_for_offload,
    offloads_optimizer,
    read_config,
    require_elementwise,
    require_known,
    settle,
)
from lun.strategies.zero.pieces import Partitions

log = logging.getLogger(__name__)


class DeepSpeed(DeepSpeedStrategy):
    """ZeRO: optimizer state (stage 1), gradients (2) and weights (3) of a model are spread over the ranks.

    config                         a DeepSpeed config instead of the arguments: a JSON file or a map
    zero_allow_untested_optimizer  also take an optimizer that is not known to treat each element for itself
    timeout_minutes                after which a rank that waits for the others gives up
    save_distributed_checkpoint    each rank writes its own part of a checkpoint into a folder beside the .ckpt file,
                                   instead of rank 0 all of it: nothing is gathered. What reads one kind reads the other

    Everything else as in Lightning's `DeepSpeedStrategy`. What differs: checkpoints are ordinary files that resume
    under any strategy and number of ranks; an offloaded optimizer is torch's, which needs no compiler; a window of
    micro-batches is divided once; the EMA averages the fp32 weights where they lie.
    """

    accepts = "lightning.pytorch.strategies.deepspeed.DeepSpeedStrategy"
    config: dict[str, Any]
    parallel_devices: list[torch.device] | None
    partitions: Partitions

    def __init__(
        self,
        config: str | Mapping[str, Any] | None = None,
        zero_allow_untested_optimizer: bool = False,
        timeout_minutes: float = 30.0,
        save_distributed_checkpoint: bool = False,
        **settings: Any,
    ) -> None:
        _require_deepspeed()
        # The optimizers that DeepSpeed knows are fewer than those that are right, so that it is never asked.
        super().__init__(
            config=read_config(config),
            zero_allow_untested_optimizer=True,
            timeout=timedelta(minutes=timeout_minutes),
            **{"logging_batch_size_per_gpu": 1} | settings,
        )
        require_known(self.config["zero_optimization"])
        if config is not None and settings:
            log.info("note: beside a DeepSpeed config these are ignored: %s", ", ".join(sorted(settings)))
        self.config.update({"zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False})
        self.config.setdefault("train_micro_batch_size_per_gpu", 1)  # said in DeepSpeed's own logs alone
        self.untested_allowed = zero_allow_untested_optimizer
        self.saves_in_parts = save_distributed_checkpoint
        self.states = checkpoint_parts.StateDicts()
        self._groups: zero_checkpoint.Groups = []

    @classmethod
    def refuse_trainer(cls, trainer: Mapping[str, Any]) -> None:
        """Raise `Fault` DEP01 without deepspeed, CFG08 for clipping by value: its engine clips, and only by norm."""
        _require_deepspeed()
        if trainer.get("gradient_clip_algorithm") == "value":
            raise Fault(
                "CFG08",
                "DeepSpeed clips gradients by their norm, not by value",
                where="lightning.trainer.gradient_clip_algorithm",
                fix="lightning.trainer.gradient_clip_algorithm=norm",
            )

    # Start

    def setup_environment(self) -> None:
        if isinstance(self.accelerator, CUDAAccelerator):
            super().setup_environment()
            return
        import deepspeed

        if deepspeed.get_accelerator().device_name() != "cpu":
            raise Fault(
                "DEV01",
                "DeepSpeed was asked for on the CPU, but would take this machine's GPU",
                where="lightning.trainer.accelerator",
                fix="DS_ACCELERATOR=cpu python main.py ...",
            )
        # It would be compiled, by all ranks at once, for a little speed that nobody needs here.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        self.parallel_devices = [torch.device("cpu", index) for index in range(len(self.parallel_devices or ()))]
        DDPStrategy.setup_environment(self)

    def setup_distributed(self) -> None:
        if isinstance(self.accelerator, CUDAAccelerator):
            super().setup_distributed()
            return
        self.set_world_ranks()
        self._init_deepspeed_distributed()

    def model_sharded_context(self) -> AbstractContextManager[None]:
        """Networks are built whole, since weights are read while they are; the engine cuts them up."""
        return nullcontext()

    def _format_config(self) -> None:
        trainer = self.lightning_module.trainer
        policy = self.precision_plugin.policy
        self.config = settle(self.config, trainer.accumulate_grad_batches, policy.name)
        if policy.name == "16-mixed":
            self.initial_scale_power = round(log2(policy.init_scale))
            self.loss_scale_window = policy.growth_interval
        super()._format_config()

    def _init_optimizers(self) -> Any:
        optimizer, schedule = super()._init_optimizers()
        require_elementwise(optimizer, self.untested_allowed)
        if offloads_optimizer(self.config):
            fit_for_offload(optimizer)
        names = {id(parameter): name for name, parameter in self.lightning_module.named_parameters()}
        self._groups = [[names[id(p)] for p in group["params"]] for group in optimizer.param_groups]
        return optimizer, schedule

    def init_deepspeed(self) -> None:
        model = self.lightning_module
        precise = {name: weight.data.cpu() for name, weight in model.named_parameters() if weight.requires_grad}
        super().init_deepspeed()
        self._forward_redirection = InsideEngine(self.precision_plugin)
        self.precision_plugin.loss_scaler = getattr(self.model.optimizer, "loss_scaler", None)
        self.partitions = Partitions(model, self.model.optimizer, self.root_device, self.states)
        if self.precision_plugin.policy.name != "32-true":  # the engine made its fp32 weights from halved ones
            self.partitions.write(precise)
            self.partitions.written()

    @property
    def ema_source(self) -> Partitions:
        """What the EMA averages: of what trains, that which asks for a gradient now."""
        asking = {name for name, p in self.lightning_module.named_parameters() if p.requires_grad}
        return self.partitions.only(asking)

    @property
    def cuts_frozen_parts(self) -> bool:
        """Whether what does not train is spread, too, so that no rank can read or compute with it alone: in stage 3."""
        return self.partitions.sharded_weights

    # Checkpoints: one ordinary file, as without DeepSpeed, or the ranks' parts of it

    def lightning_module_state_dict(self) -> dict[str, Any]:
        return zero_checkpoint.module_state(self.lightning_module, self.partitions)

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Tensor]:
        return zero_checkpoint.optimizer_state(self.partitions, self._groups)

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: str | Path, storage_options: Any = None) -> None:
        checkpoint_parts.save(self, checkpoint, filepath, storage_options)

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> dict[str, Any]:
        return Strategy.load_checkpoint(self, checkpoint_path, weights_only)

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        zero_checkpoint.load_module_state(self.lightning_module, self.partitions, checkpoint["state_dict"], strict)

    @property
    def lightning_restore_optimizer(self) -> bool:
        return True

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        for saved in checkpoint["optimizer_states"]:
            zero_checkpoint.load_optimizer_state(self.partitions, self._groups, saved)


def _require_deepspeed() -> None:
    """`Fault` DEP01 where it is not installed; on a machine without CUDA it is set to use the CPU."""
    if find_spec("deepspeed") is None:
        raise Fault(
            "DEP01",
            "deepspeed is not installed",
            where="lightning.trainer.strategy",
            fix=install_line("deepspeed"),
        )
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
