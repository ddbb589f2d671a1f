"""A run that goes on with other data or another global batch: what differs, and where it then goes on."""

from collections.abc import Collection, Mapping
from typing import Any

from ldm.errors import Fault

DATA = "data"
BATCH = "batch"


def compare_data(
    stored: Mapping[str, Any],
    now: Mapping[str, Any],
    *,
    devices: int = 1,
    accumulate: int = 1,
    accepted: Collection[str] = (),
) -> Fault | None:
    """RES03 if the order of examples would not be that of the run, None if it is or the difference was accepted.

    stored, now   `state_dict_of_data()` of the checkpoint and of today: n, global_batch, fingerprint, seed
    accepted      what `--accept-change` names: "data", "batch"
    """
    changes = list_changes(stored, now)
    refused = {kind: lines for kind, lines in changes.items() if kind not in accepted}
    if not refused:
        return None
    fixes = [_setting_that_keeps(int(stored["global_batch"]), devices, accumulate)] if BATCH in refused else []
    fixes.append("on purpose: " + " ".join(f"--accept-change {kind}" for kind in sorted(refused, reverse=True)))
    return Fault(
        "RES03",
        "the data or the global batch is not that of the run, so it cannot go on where it was",
        why="\n".join(line for lines in refused.values() for line in lines),
        fix="\n".join(fixes) + "   (goes on at the start of the next epoch)",
    )


def list_changes(stored: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[str]]:
    """What differs, in words, under the kind of change that has to be accepted: "data" or "batch"."""
    changes: dict[str, list[str]] = {}
    for name, kind, label in (
        ("n", DATA, "images"),
        ("seed", DATA, "seed"),
        ("global_batch", BATCH, "images a step (global batch)"),
    ):
        if stored.get(name) != now.get(name):
            changes.setdefault(kind, []).append(f"{label}: {stored.get(name)} -> {now.get(name)}")
    if stored.get("fingerprint") != now.get("fingerprint"):
        changes.setdefault(DATA, []).append("files: other paths, sizes or repeats than before")
    return changes


def next_epoch(slot: int, n_before: int) -> int:
    """The epoch that begins next after `slot`; a slot that begins an epoch stays its beginning."""
    return -(-slot // n_before)


def _setting_that_keeps(global_batch: int, devices: int, accumulate: int) -> str:
    """How to see `global_batch` images a step again on today's devices."""
    size, rest = divmod(global_batch, devices * accumulate)
    if size and not rest:
        return f"data.params.batch_size={size}   (x devices {devices} x accumulate {accumulate} = {global_batch} again)"
    size, rest = divmod(global_batch, devices)
    if size and not rest:
        return f"data.params.batch_size={size} lightning.trainer.accumulate_grad_batches=1   (= {global_batch} again)"
    return f"a number of devices by which {global_batch} can be divided"
