"""`verify` and `export`: how far weights are from others, and averages out of a checkpoint."""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ldm.errors import Fault
from ldm.files.ema_snapshot import TensorFile
from ldm.files.rank_shards import with_tensors
from ldm.files.write import write_safetensors
from ldm.shell import quoted
from lun.checkpoints.atomic import peek
from lun.posthoc_ema.reconstructing import refuse_existing

EMA = "model_ema."


def verify(arguments: argparse.Namespace) -> None:
    """Print the distance of two files' weights; `Fault` MOD03 if it is above `--tolerance` of what training moved."""
    with TensorFile(Path(arguments.file)) as ours, TensorFile(Path(arguments.against)) as other:
        names = sorted(ours.keys() & other.keys())
        if not names:
            raise Fault("MOD03", f"{ours.path} and {other.path} share no tensor")
        base = TensorFile(Path(arguments.base)) if arguments.base else None
        apart = moved = 0.0
        for name in names:
            wanted = other[name].double()
            apart += float((ours[name].double() - wanted).square().sum())
            moved += float((wanted - base[name].double() if base else wanted).square().sum())
    if moved == 0:
        raise Fault("MOD03", f"{arguments.against} is no further than its base, so there is nothing to compare with")
    share = math.sqrt(apart / moved)
    unit = "of what training moved" if base else "of their norm"
    print(f"{len(names)} tensors are {100 * share:.4f} % {unit} apart")
    if share > arguments.tolerance:
        raise Fault(
            "MOD03",
            f"{arguments.file} is not {arguments.against}",
            why=f"they are {100 * share:.4f} % {unit} apart, more than {100 * arguments.tolerance:g} %",
        )


def export(arguments: argparse.Namespace) -> None:
    """Write an average that a checkpoint holds, with all weights that are not averaged."""
    refuse_existing(Path(arguments.out))
    path = _checkpoint(Path(arguments.run))
    content = with_tensors(peek(path), path)
    state: dict[str, Tensor] = content.get("state_dict", {})
    if not state:
        raise Fault("MOD02", f"{path} is not a checkpoint of a run")
    raw = {name: tensor for name, tensor in state.items() if not name.startswith(EMA)}
    tracks = available(content, raw)
    if arguments.track not in tracks:
        raise Fault(
            "CLI05",
            f"{path} holds no average {arguments.track!r}",
            where="--track",
            fix=" or ".join(f"--track {quoted(name)}" for name in tracks) or "a checkpoint of a run with an EMA",
        )
    write_safetensors(arguments.out, raw | tracks[arguments.track], {"format": "pt", "ema_track": arguments.track})
    print(f"written  {arguments.out}")


def available(content: Mapping[str, Any], raw: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """{track: {name on disk: tensor}} of a checkpoint: CompVis' own EMA as "ema", the widths by their names."""
    names = {name.removeprefix("model.").replace(".", ""): name for name in raw}
    main = {
        names[key]: tensor
        for stored, tensor in content["state_dict"].items()
        if stored.startswith(EMA) and (key := stored.removeprefix(EMA)) in names
    }
    numbers = content.get("ema", {})
    tracks = {name: dict(track["weights"]) for name, track in numbers.get("tracks", {}).items()}
    return (dict.fromkeys(["ema", *numbers.get("same_as_ema", ())], main) if main else {}) | tracks


def _checkpoint(path: Path) -> Path:
    """A file itself, or a run's newest."""
    if path.is_file():
        return path
    from lun.run_dir.resume import find_checkpoint

    return find_checkpoint(str(path)).checkpoint
