"""Whether the sizes that sets ask for can stand in one batch."""

from collections.abc import Sequence

from ldm.errors import Fault
from ldm.util import setting_of
from lun.data.order.buckets import Buckets
from lun.data.sets.set_settings import WHERE, SetSettings


def require_sizes(sets: Sequence[SetSettings], buckets: Buckets | None) -> None:
    """Raise `Fault` CFG08 for resolutions that no bucket has, and without buckets for sets of different sizes."""
    for one in sets:
        if one.resolutions is not None:
            _require_buckets(one, one.resolutions, buckets)
        if buckets is not None:
            _require_served(one, one.resolutions or buckets.resolutions)
    sizes = {} if buckets else {one.name: setting_of(one.recipe, "size") for one in sets}
    if len(set(sizes.values())) > 1:
        raise Fault(
            "CFG08",
            "the sets have different sizes, and without buckets a batch holds one",
            where=WHERE,
            why=", ".join(f"{name}: {size}" for name, size in sizes.items()),
            fix="'data.params.buckets={resolutions: [512]}', or one size for all",
        )


def _require_served(one: SetSettings, resolutions: Sequence[int]) -> None:
    """Raise `Fault` CFG08 for a size that somebody wrote down and no bucket of the set has."""
    size = (one.recipe.get("params") or {}).get("size")
    if isinstance(size, int) and size not in resolutions:
        where = f"{one.where}.params.size"
        why = f"with buckets its pictures are read at {', '.join(map(str, resolutions))}"
        fix = f"~{where}, or {size} among data.params.buckets.resolutions"
        raise Fault("CFG08", f"no bucket serves {where}: {size}", where=where, why=why, fix=fix)


def _require_buckets(one: SetSettings, resolutions: Sequence[int], buckets: Buckets | None) -> None:
    where = f"{one.where}.resolutions"
    if buckets is None:
        fix = f"'data.params.buckets={{resolutions: {list(resolutions)}}}', or ~{where}"
        raise Fault("CFG08", f"{where} has no effect without data.params.buckets", where=where, fix=fix)
    if unknown := [side for side in resolutions if side not in buckets.resolutions]:
        raise Fault(
            "CFG08",
            f"no bucket serves {where}: {unknown}",
            where=where,
            why=f"data.params.buckets.resolutions has {', '.join(map(str, buckets.resolutions))}",
            fix=f"'data.params.buckets.resolutions={sorted({*buckets.resolutions, *resolutions})}'",
        )
