"""Whether there is room, and the right to use it, for what training writes."""

from lun.doctor.finding import Finding, Level

GIB = 2**30
# SD 1.x with its optimizer and averaged weights: 860 million parameters of 16 bytes.
CHECKPOINT = 13.8e9


def examine_shared_memory(total: int | None) -> Finding:
    """/dev/shm in bytes, through which loader workers hand over pictures; None where a system has none."""
    if total is None:
        return Finding("OK", "/dev/shm", "none on this system, and none is needed")
    said = f"{total / GIB:.1f} GiB"
    if total >= GIB:
        return Finding("OK", "/dev/shm", said)
    level: Level = "FAIL" if total <= GIB // 16 else "WARN"
    return Finding(
        level,
        "/dev/shm",
        f"{said}; loader workers need more",
        "--ipc=host (docker/start.sh), or data.params.num_workers=0",
    )


def examine_disk(free: int) -> Finding:
    """Bytes that are free where runs go."""
    said = f"{free / 1e9:.0f} GB free where runs go"
    if free < 1e9:
        return Finding("FAIL", "disk", f"{free / 1e6:.0f} MB free where runs go", "--logdir on a larger disk")
    if free < 3 * CHECKPOINT:
        detail = f"{said}; a whole checkpoint of SD 1.x has {CHECKPOINT / 1e9:.0f} GB, and a run holds several"
        return Finding("WARN", "disk", detail, "--logdir on a larger disk")
    return Finding("OK", "disk", said)


def examine_permissions(writable: dict[str, bool]) -> Finding:
    """{what the place is for: whether one may write there}."""
    closed = [name for name, allowed in writable.items() if not allowed]
    if closed:
        fix = "--logdir and LUN_CACHE with folders that you may write to; podman: docker/start.sh maps your user"
        return Finding("FAIL", "permissions", f"may not write {' and '.join(closed)}", fix)
    return Finding("OK", "permissions", f"may write {' and '.join(writable)}")


def examine_commit(commit: str | None, version: str) -> Finding:
    """The program's git commit; `+` behind it means that files were changed since."""
    if commit is None:
        return Finding("OK", "lun", f"{version}, not from a git checkout")
    changed = ", with changes of your own" if commit.endswith("+") else ""
    return Finding("OK", "lun", f"{version}, commit {commit[:12]}{changed}")
