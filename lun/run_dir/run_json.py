"""What `run.json` holds: who ran what, with which versions, and how it ended."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ldm.plain import record_of

PACKAGES = ("torch", "lightning", "diffusers", "transformers", "omegaconf", "numpy", "pillow", "safetensors")


@dataclass(frozen=True)
class RunRecord:
    """One start of a run, all of it plain values.

    status        running, done, stopped or failed
    started       ISO time; `ended` is empty while it runs
    attempt       1 for the first start, then 2, ...
    resumed_from  a checkpoint below the run directory
    data          n, global_batch, fingerprint and seed, as checkpoints hold them
    total_steps   the schedule's horizon
    job           the SLURM job or the torchrun that started it, which may do so again
    allow         packages of the person's own whose code the configuration could name; a resume asks for them again
    """

    status: str
    started: str
    argv: list[str]
    allow: list[str] = field(default_factory=list)
    job: str | None = None
    seed: int | None = None
    attempt: int = 1
    resumed_from: str | None = None
    ended: str = ""
    exit_code: int | None = None
    steps: int = 0
    total_steps: int | None = None
    threads: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None
    warnings: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Mapping[str, Any]) -> "RunRecord | None":
        """The record in a stored map; keys of other versions are left out, None where one is missing or odd."""
        known = {entry.name: rows[entry.name] for entry in fields(cls) if entry.name in rows}
        try:
            return record_of(cls, known)
        except ValueError:
            return None


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that decide a result; those not installed are left out."""
    from importlib.metadata import PackageNotFoundError, version  # a parser of mails, which few starts need

    versions = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def program_commit() -> str | None:
    """The git commit of this program, with `+` where files were changed; None outside a checkout or without git."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return commit + ("+" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()
