"""All measurements of a kind, each in a process of its own, and the page of what they found; see `bench.sh --help`."""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measurements import MEASUREMENTS, Measurement
from page import page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PUBLISHED = ROOT / "docs"
Told = dict[str, Any]


def take(measurement: Measurement, program: Path, folder: Path, label: str) -> Told | None:
    """Run one on the program in `program`; None, and the reason on stderr, where it fails."""
    file, log = (folder / f"{measurement.name}-{label}.{ending}" for ending in ("json", "txt"))
    file.unlink(missing_ok=True)
    line = [sys.executable, str(HERE / measurement.script), *measurement.words, "--json", str(file)]
    cores = {} if measurement.kind == "gpu" else {"OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **cores, "HF_HUB_OFFLINE": "1", "LUN_MEASURED": str(program)}
    environment.pop("PYTHONPATH", None)
    began, spent = perf_counter(), cpu_of_children()
    with log.open("w") as told:
        code = subprocess.run(line, cwd=program, env=environment, stdout=told, stderr=subprocess.STDOUT).returncode
    if code or not file.is_file():
        last = (log.read_text(errors="replace").strip().splitlines() or ["nothing was said"])[-1]
        print(f"{measurement.name} ({label}): exit code {code}: {last}", file=sys.stderr, flush=True)
        return None
    seconds, cpu = perf_counter() - began, cpu_of_children() - spent
    print(f"{measurement.name} ({label}): {seconds:.0f} s, {cpu:.0f} s of CPU", flush=True)
    found: Told = json.loads(file.read_text())
    given = {row["name"] for row in found["rows"]}
    for row in measurement.rows:
        if row not in given:
            print(f"{measurement.name} ({label}): no row '{row}'", file=sys.stderr, flush=True)
    strange = given - set(measurement.rows)
    if strange:
        raise SystemExit(f"{measurement.script} gave rows that measurements.py does not list: {sorted(strange)}")
    return found


def cpu_of_children() -> float:
    """Seconds of CPU of all processes that have ended below this one: what a busy machine does not lengthen."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def checkout(revision: str | None) -> Iterator[Path | None]:
    """A work tree of another commit, and nothing of it afterwards, also where SIGTERM ends the process."""
    if revision is None:
        yield None
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "before"
        subprocess.run([*git, "add", "--quiet", "--detach", str(place), revision], check=True)
        usual = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        try:
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)
            signal.signal(signal.SIGTERM, usual)


def kept(file: Path) -> dict[str, dict[str, Told]]:
    """What the page was made of so far: of the other kind, and of measurements that are not taken now."""
    found: dict[str, dict[str, Told]] = json.loads(file.read_text()) if file.is_file() else {}
    return found


def measure(
    chosen: Sequence[Measurement], folder: Path, revision: str | None
) -> tuple[Mapping[str, dict[str, Told]], bool]:
    """What each gave, now and for the other commit, one after the other; and whether all did."""
    results: dict[str, dict[str, Told]] = {"now": {}}
    whole = True
    with checkout(revision) as before:
        programs = {"now": ROOT} | ({"before": before} if before else {})
        for measurement in chosen:
            for label, program in programs.items():
                told = take(measurement, program, folder, label)
                whole &= told is not None
                if told:
                    results.setdefault(label, {})[measurement.name] = told
    return results, whole


def main(argv: Sequence[str] | None = None) -> int:
    asked = argparse.ArgumentParser(prog="bench.sh")
    asked.add_argument("kind", nargs="?", choices=("cpu", "compiled", "gpu"), default="cpu")
    asked.add_argument("folder", nargs="?", type=Path, default=ROOT / "logs/bench")
    asked.add_argument("--against", metavar="REV", help="measure the same of another commit, in turn, and show both")
    asked.add_argument("--only", nargs="+", choices=[one.name for one in MEASUREMENTS], help="these alone")
    asked.add_argument("--publish", action="store_true", help="write docs/benchmarks.md and .json as well")
    told = asked.parse_args(argv)
    chosen = [one for one in MEASUREMENTS if one.kind == told.kind and (not told.only or one.name in told.only)]
    told.folder.mkdir(parents=True, exist_ok=True)
    found, whole = measure(chosen, told.folder.resolve(), told.against)
    for place in (told.folder, *([PUBLISHED] if told.publish else [])):
        results = kept(place / "benchmarks.json")
        for label in found:
            results[label] = {**results.get(label, {}), **found[label]}
        if not told.against:
            results["before"] = {
                name: row for name, row in results.get("before", {}).items() if name not in found["now"]
            }
        (place / "benchmarks.json").write_text(json.dumps(results, indent=1) + "\n")
        (place / "benchmarks.md").write_text(page(results))
        print(f"wrote {place / 'benchmarks.md'}")
    return int(not whole)


if __name__ == "__main__":
    sys.exit(main())
