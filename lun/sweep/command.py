"""The command: list the trials, run what is not done, and report what came of all of them."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

from ldm.errors import Fault
from ldm.files.replacing import replace_text
from ldm.shell import quoted
from lun.console import log as console
from lun.console.ending import reported
from lun.console.environment import missing
from lun.program import as_started
from lun.run_dir.claim import writing_into
from lun.sweep.arguments import NAME, parse
from lun.sweep.array_script import array_script
from lun.sweep.results_table import logged_metrics, refuse_unlogged, results, table, write_results
from lun.sweep.running import Launch, launched, run_trial, run_trials
from lun.sweep.search import FILE, Search, require_optuna, run_search
from lun.sweep.sweep_folder import SweepFolder
from lun.sweep.trials import Trial, product_of, queue_of, space_of

log = logging.getLogger(__name__)


def run(argv: Sequence[str] | None = None, launch: Launch = launched) -> int:
    """Do what the command line says (`sys.argv` by default) and return the exit code; nothing is raised.

    0 where all runs ended well, else the code of the first that did not
    """
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _start(words, launch), [NAME, *words])


def _start(words: list[str], launch: Launch) -> int:
    asked, rest = parse(words or ["--help"])
    console.configure(None)
    if find_spec("torch") is None:
        raise missing("torch")  # which every run would say
    rest = [word for word in rest if word not in ("-t", "--train")]
    if asked.search:
        return _search(asked, rest, launch)
    trials = queue_of(Path(asked.queue)) if asked.queue else product_of(rest)
    folder = SweepFolder(_place(asked, rest))
    if asked.index is not None:
        return run_trial(folder, _numbered(trials, asked.index), launch) if _is_left(folder, trials, asked) else 0
    if asked.slurm:
        return _write_script(folder, trials, asked, rest)
    if asked.table:
        return _report(folder, trials, asked)
    with writing_into(folder.path, "-o"):
        stopped = run_trials(folder, trials, launch, asked.again, lambda: _note(folder, trials, asked))
        code = _report(folder, trials, asked)
    return code if stopped is None else stopped


def _search(asked: argparse.Namespace, rest: Sequence[str], launch: Launch) -> int:
    require_optuna()
    space, folder = space_of(rest), SweepFolder(_place(asked, rest))
    if asked.table and not (folder.path / FILE).is_file():
        raise Fault("CLI03", f"nothing was searched in {folder.path}", where="--table", fix="leave --table out")

    def value(trial: Trial) -> float | None:
        _note(folder, search.trials(), asked)
        refuse_unlogged(folder, [trial], asked.metric)  # else as many runs as were asked for would show nothing
        return results(folder, [trial], asked.metric, asked.maximize)[0].best

    with nullcontext() if asked.table else writing_into(folder.path, "-o"):
        search = Search(folder.path, space, asked.metric, asked.maximize, only_read=asked.table)
        stopped = None if asked.table else run_search(folder, search, asked.trials, launch, value)
        code = _report(folder, search.trials(), asked)
    return code if stopped is None else stopped


def _place(asked: argparse.Namespace, rest: Sequence[str]) -> Path:
    """`-o`, else a folder that the same line finds again, whatever its metric where nothing is searched by it."""
    if asked.output is not None:
        return Path(asked.output)
    meant = [str(Path(asked.queue).resolve())] if asked.queue else list(rest)
    meant += [asked.search, asked.metric, str(asked.maximize)] if asked.search else []
    digest = hashlib.sha256(json.dumps(meant).encode()).hexdigest()[:8]
    return Path("logs") / "sweeps" / (f"{Path(asked.queue).stem}-{digest}" if asked.queue else digest)


def _numbered(trials: Sequence[Trial], index: int) -> Trial:
    if not 1 <= index <= len(trials):
        raise Fault("CLI03", f"there is no run {index}", where="--index", fix=f"1 to {len(trials)}")
    return trials[index - 1]


def _is_left(folder: SweepFolder, trials: Sequence[Trial], asked: argparse.Namespace) -> bool:
    state = folder.state(_numbered(trials, asked.index))
    return state != "done" and (state != "failed" or asked.again)


def _write_script(folder: SweepFolder, trials: Sequence[Trial], asked: argparse.Namespace, rest: Sequence[str]) -> int:
    folder.path.mkdir(parents=True, exist_ok=True)
    script = folder.path / "sweep.sbatch"
    own = ["--queue", str(Path(asked.queue).resolve())] if asked.queue else []
    again = ["--again"] if asked.again else []
    words = [*rest, *own, *again, "-o", str(folder.path.absolute())]
    replace_text(script, array_script(script, words, len(trials), NAME))
    metric = ["--metric", asked.metric, *(["--maximize"] if asked.maximize else [])] if asked.metric else []
    log.info("start    sbatch %s", quoted(script))
    log.info("then     %s", as_started(f"{NAME} {quoted(*words, *metric, '--table')}"))
    return 0


def _note(folder: SweepFolder, trials: Sequence[Trial], asked: argparse.Namespace) -> None:
    write_results(folder, results(folder, trials, asked.metric, asked.maximize), asked.metric)


def _report(folder: SweepFolder, trials: Sequence[Trial], asked: argparse.Namespace) -> int:
    """Print the table; the exit code of the first trial that did not end well, 0 for none that ended otherwise.

    Raises `Fault` CLI03 for a metric that no run has logged.
    """
    found = results(folder, trials, asked.metric, asked.maximize)
    if not folder.path.is_dir():
        raise Fault("CLI03", f"nothing was run in {folder.path}", where="--table", fix="leave --table out")
    write_results(folder, found, asked.metric)
    print(table(found, asked.metric))
    log.info("results  %s", folder.path / "results.csv")
    codes = [code for trial in trials if (code := folder.exit_code(trial))]
    if asked.metric and logged_metrics(folder, trials):
        refuse_unlogged(folder, trials, asked.metric)
    return codes[0] if codes else 0
