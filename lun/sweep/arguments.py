"""What the command line of `python -m lun.sweep` says."""

import argparse
from collections.abc import Sequence

from ldm.errors import Fault
from lun.cli.command_parser import CommandParser

NAME = "python -m lun.sweep"
MOST = 1000
"""Runs of a sweep."""
ABOUT = """several runs, one after the other: the product of all settings that have several values

All that is not listed below is handed to each run, as `python main.py` takes it; a setting's values are apart by commas
outside of brackets and quotes. The same line goes on where it was interrupted: what ended well is not run again, what
was interrupted is resumed. A run that fails is in the table with its exit code, and the others go on."""
EXAMPLES = """examples
  python -m lun.sweep --base sd15 16gb --data_root DIR model.base_learning_rate=1e-5,3e-5 --metric val/loss
  python -m lun.sweep --queue lines.txt --metric val/loss          a command line of main.py a line
  python -m lun.sweep --search optuna --trials 20 --base ... model.base_learning_rate=1e-6..1e-4:log --metric val/loss
  python -m lun.sweep --base ... key=a,b --metric val/loss --slurm  writes an array script instead of running"""


def parse(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and the words for each run. `Fault` CLI03 for what contradicts itself; SystemExit after `--help`."""
    asked, rest = build().parse_known_args(list(words))
    given = {"--index": asked.index is not None, "--slurm": asked.slurm, "--table": asked.table}
    chosen = [flag for flag, so in given.items() if so]
    if len(chosen) > 1:
        raise Fault("CLI03", f"{' and '.join(chosen)} contradict each other", where=NAME, fix="leave one of them out")
    if asked.queue and rest:
        what = f"{rest[0]} has no effect: the lines of --queue say what is run"
        raise Fault("CLI03", what, where="--queue", fix="write it into the lines")
    _check_search(asked)
    if asked.maximize and not asked.metric:
        raise Fault("CLI03", "--maximize has no effect without --metric", where="--maximize", fix="--metric val/loss")
    return asked, rest


def _check_search(asked: argparse.Namespace) -> None:
    if asked.search is None:
        if asked.trials is not None:
            what = "--trials has no effect without --search"
            raise Fault("CLI03", what, where="--trials", fix="--search optuna")
        return
    each_alone = "a search draws each run by what came of those before"
    without = {
        "--queue": asked.queue,
        "--slurm": asked.slurm,
        "--index": asked.index is not None,
        "--again": asked.again,
    }
    if flag := next((flag for flag, given in without.items() if given), None):
        what = f"--search and {flag} contradict each other"
        raise Fault("CLI03", what, where=NAME, why=each_alone, fix="leave one of them out")
    if not asked.metric:
        raise Fault("CLI03", "--search has no metric to search by", where="--search", fix="--metric val/loss")
    fix = f"--trials 20 (1 to {MOST:,})"
    if asked.trials is None:
        raise Fault("CLI03", "--search needs the number of runs", where="--trials", fix=fix)
    if not 1 <= asked.trials <= MOST:
        extent = "few" if asked.trials < 1 else "many"
        raise Fault("CLI03", f"{asked.trials} runs are too {extent} for a search", where="--trials", fix=fix)


def build() -> CommandParser:
    """The parser of the command line."""
    parser = CommandParser(
        prog=NAME,
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--metric", metavar="NAME", help="by whose lowest value runs are sorted: val/loss, ...")
    parser.add_argument("--maximize", action="store_true", help="by its highest value instead")
    parser.add_argument("--queue", metavar="FILE", help="command lines, one a line, instead of a product")
    parser.add_argument("--search", choices=["optuna"], help="draw values, and from ranges LOW..HIGH or LOW..HIGH:log")
    parser.add_argument("--trials", metavar="N", type=int, help="how many runs a search makes in all")
    parser.add_argument("--again", action="store_true", help="run what failed again, too")
    parser.add_argument("--slurm", action="store_true", help="write a script for a SLURM array, a run each")
    parser.add_argument("--index", metavar="N", type=int, help="do the Nth run alone, counted from 1")
    parser.add_argument("--table", action="store_true", help="only show what has come of it")
    parser.add_argument("-o", "--output", metavar="DIR", help="of all runs (logs/sweeps/<what is asked>)")
    return parser
