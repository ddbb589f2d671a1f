"""What DeepSpeed does not promise and checkpoints of ZeRO need, in one place. Tried with DeepSpeed 0.19.8.

Its own setters of whole weights fail for sizes that the ranks do not divide, and it makes optimizer state only in the
first step, too late for a resume. `zero` is the engine's optimizer (`engine.optimizer`) of stage 1, 2 or 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, distributed

from ldm.errors import Fault
from ldm.missing_packages import install_line

TRIED = "0.19.8"
STAGE_3 = ("fp32_partitioned_groups_flat", "grad_position", "get_param_id", "persistent_parameters")
STAGE_3_WRITES = ("_partition_all_parameters", "_reassign_or_swap_out_partitioned_parameters")


@dataclass(frozen=True)
class Placed:
    """Where this rank's run of a parameter lies: from `offset` of the partition `flat`, from `start` of the whole.

    shape is that of the whole; flat is None where this rank has none of it.
    """

    shape: torch.Size
    flat: Tensor | None = None
    offset: int = 0
    start: int = 0
    length: int = 0


def shards_weights(zero: Any) -> bool:
    """Whether it cuts up the weights that the network computes with, too: stage 3."""
    return hasattr(zero, STAGE_3[0])


def require_known_insides(zero: Any) -> None:
    """Raise `Fault` DEP01 where this DeepSpeed lacks what is read and called here."""
    if shards_weights(zero):
        names: Sequence[str] = (*STAGE_3, *STAGE_3_WRITES, "optimizer")
    else:
        names = ("update_lp_params", "optimizer")
        if not (hasattr(zero, "single_partition_of_fp32_groups") or hasattr(zero, "fp32_groups_flat_partition")):
            raise _unfit("single_partition_of_fp32_groups")
    for name in names:
        if not hasattr(zero, name):
            raise _unfit(name)


def partitions_of(zero: Any) -> list[Tensor]:
    """This rank's flat fp32 partitions (n,), each a parameter that the inner optimizer steps."""
    if shards_weights(zero):
        return list(zero.fp32_partitioned_groups_flat)
    # Stage 1 in bfloat16 with fp32 accumulation is another class, with another name for the same.
    return list(getattr(zero, "single_partition_of_fp32_groups", None) or zero.fp32_groups_flat_partition)


def placed(zero: Any, parameter: Any) -> Placed:
    """Where this rank's run of a trained parameter lies."""
    if shards_weights(zero):
        group, offset, size = zero.grad_position[zero.get_param_id(parameter)]
        start = min(size * distributed.get_rank(), parameter.ds_numel)
        length = min(size, parameter.ds_numel - start)
        return Placed(parameter.ds_shape, partitions_of(zero)[group], int(offset), start, length)
    mapping = parameter._hp_mapping
    if mapping is None:
        return Placed(parameter.shape)
    place, origin = mapping.hp_fragment_address, mapping.lp_fragment_address
    flat = partitions_of(zero)[mapping.param_group_index]
    return Placed(parameter.shape, flat, place.start, origin.start, place.numel)


def publish(zero: Any) -> None:
    """After partitions were written: bring what the network computes with up to date. Collective."""
    if not shards_weights(zero):
        zero.update_lp_params()
        return
    zero._partition_all_parameters()
    for index in range(len(partitions_of(zero))):
        zero._reassign_or_swap_out_partitioned_parameters(index)
    if lasting := zero.persistent_parameters:  # small ones stay whole, and would stay as they were
        lasting[0].all_gather(lasting)


def _unfit(name: str) -> Fault:
    return Fault(
        "DEP01",
        f"deepspeed {version('deepspeed')} does not fit",
        why=f"its ZeRO optimizer has no {name}; the program was tried with {TRIED}",
        fix=install_line("deepspeed"),
    )
