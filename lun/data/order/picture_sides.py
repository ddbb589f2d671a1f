"""Whether the sizes that pictures are read at are ones that the network takes, known before anything is built."""

from collections.abc import Iterator, Mapping
from typing import Any

from ldm.errors import Fault


def require_sides(unit: int, data: Mapping[str, Any]) -> None:
    """Raise `Fault` CFG08 for a size in the `data` section whose sides are no multiples of `unit` pixels."""
    for where, side in _sides(data.get("params") or {}, "data.params") if unit > 1 else ():
        if side % unit:
            raise Fault(
                "CFG08",
                f"sides of {side} pixels cannot be cut into patches",
                where=where,
                why=f"for this network they have to be multiples of {unit}",
                fix=f"{where}={side // unit * unit or unit} or {-(-side // unit) * unit}",
            )


def _sides(params: Mapping[str, Any], place: str) -> Iterator[tuple[str, int]]:
    """(setting, pixels) of all that decides how large pictures are: the step of buckets, else each data set's size."""
    buckets = params.get("buckets")
    if isinstance(buckets, Mapping):
        yield f"{place}.buckets.step", int(buckets.get("step", 64))
        return
    for split in ("train", "validation"):
        yield from _sizes(params.get(split), f"{place}.{split}")


def _sizes(recipe: Any, place: str) -> Iterator[tuple[str, int]]:
    for name, value in recipe.items() if isinstance(recipe, Mapping) else ():
        if name == "size" and isinstance(value, int):
            yield f"{place}.size", value
        else:
            yield from _sizes(value, f"{place}.{name}")
