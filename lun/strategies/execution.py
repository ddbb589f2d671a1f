"""Where and how a run computes: strategy, precision and devices, settled once from the Trainer's settings."""

import logging
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.lightning_classes import Trainer
from ldm.missing_packages import torch_line
from ldm.util import Recipe, instantiate_from_config, is_recipe
from lun.config.suggestions import FaultCollector
from lun.strategies.combinations import Strategy, require_combination, strategy_kind
from lun.strategies.precision import policy_of
from lun.strategies.strategy_names import DDP, strategy_of

log = logging.getLogger(__name__)

# Lightning sees one endless epoch: it neither counts epochs, nor cuts batches to ranks, nor saves by itself.
ENDLESS: Mapping[str, Any] = {
    "max_epochs": -1,
    "check_val_every_n_epoch": None,
    "use_distributed_sampler": False,
    "enable_checkpointing": False,
}
QUIET: Mapping[str, Any] = {"enable_model_summary": False}
COUNTED_BY_THE_RUN = ("max_steps", "max_epochs", "val_check_interval", "enable_progress_bar")
"""Settings of the Trainer that the run reads itself."""
SLURM = "#SBATCH --ntasks-per-node=1 in the place of --ntasks; in a shell within a job: unset SLURM_NTASKS"
_LAUNCHED = ("SLURM", "TORCHELASTIC", "LSB_", "PL_", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "RANK", "WORLD_SIZE")
"""How variables begin by which launchers say who a process is, and those that stand for arguments of the Trainer."""
_ONE_DEVICE: Mapping[str, Callable[[Any], bool]] = {
    "accelerator": lambda value: value in (None, "auto", "cpu", "gpu", "cuda"),
    "devices": lambda value: value in (1, "1") and value is not True,
    "num_nodes": lambda value: value == 1 and value is not True,
    "strategy": lambda value: value in (None, "auto"),
    "precision": lambda value: True,
    "check_val_every_n_epoch": lambda value: value is None,
    "accumulate_grad_batches": lambda value: type(value) is int,
    "log_every_n_steps": lambda value: value is None or type(value) is int,
    "num_sanity_val_steps": lambda value: value is None or type(value) is int,
    "gradient_clip_val": lambda value: value is None or type(value) in (int, float),
    "gradient_clip_algorithm": lambda value: value in (None, "norm", "value"),
}
"""Arguments, and values of them, of which it is known what Lightning makes: one process on one device."""
ONE_DEVICE = "one device: --devices 1      the first GPU: --devices 0,      no GPU: --accelerator cpu"


@dataclass(frozen=True)
class Ranks:
    """The processes that train: how many, which of them this is, and where they meet.

    store   (address, port) at which rank 0 can send the others something; None where they inherit its environment
    """

    count: int = 1
    own: int = 0
    store: tuple[str, int] | None = None


@dataclass(frozen=True)
class Execution:
    """The settled answer to strategy, precision, accelerator, devices and nodes; objects are built from it anew.

    settings   the arguments of the Trainer as the configuration has them
    strategy   a recipe, or one of the two names that Lightning reads
    precision  a policy of `lun.strategies.precision`
    device     "cpu", "cuda", ...
    """

    settings: Mapping[str, Any]
    strategy: Recipe | str
    precision: Any
    device: str
    ranks: Ranks = Ranks()

    @property
    def kind(self) -> Strategy:
        """The strategy's row in the table of combinations."""
        return strategy_kind(self.strategy)

    def trainer_arguments(self) -> dict[str, Any]:
        """What Lightning's Trainer gets for it, with a new strategy and new plugins: a Trainer writes into both.

        Precision is a plugin of ours. By name Lightning would take bfloat16 for 16-mixed on a CPU, and make buffers
        bfloat16, too, in bf16-true.
        """
        given = {name: value for name, value in self.settings.items() if name not in COUNTED_BY_THE_RUN}
        given |= {"strategy": self.strategy, "precision": None}
        built = {name: _object(value) for name, value in given.items()}
        built["plugins"] = [self._plugin(), *(built.get("plugins") or ())]
        return {**QUIET, **built, **ENDLESS}

    def _plugin(self) -> Any:
        if self.kind == "deepspeed":
            from lun.strategies.zero.autocast import ZeroPrecision

            return ZeroPrecision(self.precision, self.device)
        return self.precision.plugin(self.device)

    def warn_if_slow(self) -> None:
        """Say so where a precision computes much slower than fp32 would."""
        if self.precision.name == "16-mixed" and self.device == "cpu":
            log.warning(
                "warning[DEV04]: float16 on a CPU takes many times as long as fp32: it has no arithmetic for it"
            )
            log.warning("  fix:   lightning.trainer.precision=32, or bf16-mixed")


def settle_execution(trainer: Mapping[str, Any]) -> Execution:
    """Settle where and how a run with these arguments of a Trainer computes on this machine.

    Lightning is asked once how it reads devices and nodes; nothing is written or started.
    Raises `Fault` CFG08 and DEV05 for what cannot be trained with, CFG08 and DEV03 for what Lightning refuses, and what
    the strategy has against the other arguments; an ExceptionGroup of several.
    """
    asked = _as_written(trainer, device_of(trainer) == "cpu")
    return _with_ranks(asked)


def settle_execution_anywhere(trainer: Mapping[str, Any]) -> Execution:
    """The same for one CPU in the place of devices that this machine may lack: raises what no machine could mend.

    Strategy and precision are those of the run, for whoever asks what goes with them; the rank is one.
    """
    on_cpu = trainer.get("accelerator") == "cpu"
    one_cpu = {**trainer, "accelerator": "cpu", "devices": 1, "num_nodes": 1}
    asked = _as_written(one_cpu, on_cpu)
    strategy = asked.strategy
    if strategy == "auto" and _asks_for_several(trainer):
        strategy = DDP
        require_combination("ddp", asked.precision.name, on_cpu)
    settled = _with_ranks(asked if on_cpu else _as_written({**one_cpu, "precision": "32-true"}, True))
    return replace(settled, strategy=strategy, precision=asked.precision)


def require_numbers(trainer: Mapping[str, Any]) -> None:
    """Raise `Fault` CFG08 for numbers with which training would be nonsense, such as a clipping that turns gradients
    around."""
    for name, holds, allowed in (
        ("accumulate_grad_batches", lambda number: number >= 1, "1 or more"),
        ("gradient_clip_val", lambda number: number >= 0, "0 (off) or more"),
        ("val_check_interval", lambda number: number > 0, "a number of steps, or a share of an epoch, above 0"),
        ("log_every_n_steps", lambda number: number >= 0, "0 (never) or more"),
    ):
        value = trainer.get(name)
        if isinstance(value, int | float) and not (math.isfinite(value) and holds(value)):
            raise Fault("CFG08", f"lightning.trainer.{name} cannot be {value}", why=f"it takes {allowed}")


def device_of(trainer: Mapping[str, Any]) -> str:
    """The kind of device that a Trainer with these arguments computes on: "cpu", "cuda", ..."""
    asked = str(trainer.get("accelerator") or "auto")
    if asked == "auto":
        available = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return available.type if available else "cpu"
    return "cuda" if asked == "gpu" else asked


def require_device(trainer: Mapping[str, Any]) -> None:
    """Raise `Fault` DEV01 if a GPU was asked for and torch sees none."""
    asked = trainer.get("accelerator")
    if asked in ("gpu", "cuda") and not torch.cuda.is_available():
        build = (
            "a CPU build"
            if torch.version.cuda is None and torch.version.hip is None
            else "a GPU build without a usable device"
        )
        raise Fault(
            "DEV01",
            f"accelerator {asked} was asked for, but torch sees none",
            where="lightning.trainer.accelerator",
            why=f"torch {torch.__version__} is {build}",
            fix=f"{torch_line('cuda')}\nwith a GPU of AMD: {torch_line('rocm')}\n"
            "without a GPU: --accelerator cpu      what does not fit: python main.py --doctor",
        )


def _as_written(trainer: Mapping[str, Any], on_cpu: bool) -> Execution:
    """What the arguments say by themselves, checked against each other."""
    strategy, faults = strategy_of(trainer.get("strategy")), FaultCollector()
    kind: Any = None
    if not isinstance(strategy, str):
        target = strategy["target"]
        kind = faults.collect(lambda: admitted(target))
    if hasattr(kind, "refuse_trainer"):
        faults.collect(lambda: kind.refuse_trainer(trainer))
    policy = faults.collect(lambda: policy_of(trainer.get("precision")))
    if policy is not None:
        faults.collect(lambda: require_combination(strategy_kind(strategy), policy.name, on_cpu))
    faults.collect(lambda: require_numbers(trainer))
    faults.raise_all()
    return Execution(trainer, strategy, policy, device_of(trainer))


def _with_ranks(asked: Execution) -> Execution:
    """What Lightning makes of devices and nodes; `auto` is DDP on several."""
    if _is_one_device(asked):
        return asked
    trainer = _probe(asked.trainer_arguments())
    ranks = _ranks_of(trainer)
    strategy = asked.strategy
    if strategy == "auto" and ranks.count > 1:
        strategy = DDP
        require_combination("ddp", asked.precision.name, asked.device == "cpu")
    return Execution(asked.settings, strategy, asked.precision, asked.device, ranks)


def _is_one_device(asked: Execution) -> bool:
    """Whether the arguments say so by themselves, so that Lightning need not be imported to be asked."""
    if asked.device not in ("cpu", "cuda") or any(name.startswith(_LAUNCHED) for name in os.environ):
        return False
    given = {name: value for name, value in asked.settings.items() if name not in COUNTED_BY_THE_RUN}
    return "devices" in given and all(_ONE_DEVICE.get(name, _asks)(value) for name, value in given.items())


def _asks(value: Any) -> bool:
    """Of all other arguments: Lightning is asked."""
    return False


def _asks_for_several(trainer: Mapping[str, Any]) -> bool:
    """Whether so many devices or machines are asked for, by number or one by one, that `auto` is DDP."""
    devices = trainer.get("devices")
    one_by_one = devices.split(",") if isinstance(devices, str) and "," in devices else devices
    if isinstance(one_by_one, list):
        devices = len([one for one in one_by_one if str(one).strip()])
    numbers = (devices, trainer.get("num_nodes"))
    return any(str(number).isdecimal() and int(number) > 1 for number in numbers if number is not None)


def _ranks_of(trainer: Trainer) -> Ranks:
    cluster = getattr(trainer.strategy, "cluster_environment", None)
    if trainer.world_size == 1 or cluster is None:
        return Ranks(trainer.world_size)
    elsewhere = cluster.creates_processes_externally or trainer.num_nodes > 1
    store = (cluster.main_address, cluster.main_port) if elsewhere else None
    return Ranks(trainer.world_size, trainer.global_rank, store)


def _probe(arguments: Mapping[str, Any]) -> Trainer:
    """A Trainer to ask. Raises `Fault` DEV03 for devices that Lightning refuses, CFG08 for other settings."""
    from lightning.pytorch import Trainer
    from lightning.pytorch.utilities.exceptions import MisconfigurationException

    try:
        return Trainer(**arguments, logger=False, enable_progress_bar=False)
    except (MisconfigurationException, ValueError, TypeError, RuntimeError, ImportError) as error:
        text = str(error).split("\n")[0]
        what = f"lightning.Trainer refuses its settings: {text}"
        if "--ntasks" in text:
            raise Fault("DEV03", what, where="SLURM_NTASKS in the environment", fix=SLURM) from error
        if isinstance(error, ImportError) or "devices" in text or "accelerator" in text:
            raise Fault("DEV03", what, where="lightning.trainer.accelerator, devices", fix=ONE_DEVICE) from error
        raise Fault("CFG08", what, where="lightning.trainer") from error


def _object(value: Any) -> Any:
    """Recipes (strategy, profiler, plugins) as what they stand for."""
    if isinstance(value, list):
        return [_object(entry) for entry in value]
    return instantiate_from_config(value) if is_recipe(value) else value
