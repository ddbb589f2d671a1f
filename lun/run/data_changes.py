"""A run that goes on with other data or another global batch: what differs, and where it then goes on."""

from collections.abc import Collection, Mapping
from typing import Any

from ldm.errors import Fault

DATA = "data"
BATCH = "batch"

_OF_ONE_SET = {"n": "examples", "law": "how often", "fingerprint": "files"}


def compare_data(
    stored: Mapping[str, Any],
    now: Mapping[str, Any],
    *,
    devices: int = 1,
    accumulate: int = 1,
    accepted: Collection[str] = (),
) -> Fault | None:
    """RES03 if the order of examples would not be that of the run, None if it is or the difference was accepted.

    stored, now   `state_dict_of_data()` of the checkpoint and of today: n, global_batch, fingerprint, seed, sets
    accepted      what `--accept-change` names: "data", "batch", "data:NAME" for one of several sets
    """
    changes = list_changes(stored, now)
    refused = {kind: lines for kind, lines in changes.items() if kind.partition(":")[0] not in accepted}
    refused = {kind: lines for kind, lines in refused.items() if kind not in accepted}
    if not refused:
        return None
    fixes = [_setting_that_keeps(int(stored["global_batch"]), devices, accumulate)] if BATCH in refused else []
    fixes.append("on purpose: " + " ".join(f"--accept-change {kind}" for kind in sorted(refused, reverse=True)))
    several = _are_sets(stored, now)
    goes_on = "the rest goes on where it was" if several else "goes on at the start of the next epoch"
    return Fault(
        "RES03",
        "the data or the global batch is not that of the run, so it cannot go on where it was",
        why="\n".join(line for lines in refused.values() for line in lines),
        fix="\n".join(fixes) + f"   ({goes_on})",
    )


def list_changes(stored: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[str]]:
    """What differs, in words, under the kind of change that has to be accepted: "data", "data:NAME" or "batch"."""
    several = _are_sets(stored, now)
    changes = _changed_sets(stored["sets"], now["sets"]) if several else {}
    named = [("seed", DATA, "seed"), ("global_batch", BATCH, "images a step (global batch)")]
    named = [*named, ("epoch_of", DATA, "epoch")] if several else [("n", DATA, "images"), *named]
    for name, kind, label in named:
        if stored.get(name) != now.get(name):
            changes.setdefault(kind, []).append(f"{label}: {stored.get(name)} -> {now.get(name)}")
    if not several and stored.get("fingerprint") != now.get("fingerprint"):
        changes.setdefault(DATA, []).append("files: other paths, sizes or repeats than before")
    return changes


def _are_sets(stored: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return "sets" in stored and "sets" in now


def _changed_sets(stored: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[str]]:
    """Of each set that came, went or is not what it was, what differs."""
    changes = {}
    for name in [*stored, *(name for name in now if name not in stored)]:
        if name not in now or name not in stored:
            changes[f"{DATA}:{name}"] = [f"set {name}: " + ("is there no more" if name in stored else "is new")]
            continue
        before, after = stored[name], now[name]
        differing = {key: label for key, label in _OF_ONE_SET.items() if before[key] != after[key]}
        if differing:
            changes[f"{DATA}:{name}"] = [
                _described(name, key, before, after, label) for key, label in differing.items()
            ]
    return changes


def _described(name: str, key: str, before: Mapping[str, Any], after: Mapping[str, Any], label: str) -> str:
    if key == "fingerprint":
        return f"set {name}: files: other paths, sizes or repeats than before"
    return f"set {name}: {label}: {before[key]} -> {after[key]}"


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
