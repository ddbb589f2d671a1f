"""What the command line of `python -m lun.compare` says."""

import argparse
from collections.abc import Sequence
from typing import Any

from ldm.errors import Fault
from lun.cli.command_parser import CommandParser
from lun.posthoc_ema.arguments import widths
from lun.sample.arguments import add_encoders, add_machine, add_own_code, add_pictures, guidance

NAME = "python -m lun.compare"
ABOUT = """the same prompts and seeds by several checkpoints, side by side: sheet.png, compare.html and compare.json

  SOURCE  a run directory (all checkpoints that it keeps), one of its files, or any other model that lun.sample draws
          from: a .safetensors or .ckpt file, a diffusers folder, the hub id of one

Without --prompts the first run's own are drawn. Each further option with several values multiplies the columns. One
model at a time is in memory. The same line goes on where it was interrupted, and draws what has come since."""
EXAMPLES = """examples
  python -m lun.compare logs/latest --prompts prompts.txt --base-model
  python -m lun.compare logs/A logs/B --newest --raw --ema --guidance 3,5,7.5
  python -m lun.compare sd15.safetensors --adapter fox.safetensors --strength 0,0.6,1 --prompts prompts.txt"""


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options by name. `Fault` CLI03 for what cannot be understood; SystemExit after `--help`."""
    asked = build().parse_args(list(words))
    if asked.seed == -1:
        what = "a comparison is of the same seeds, which -1 draws anew"
        raise Fault("CLI03", what, where="--seed", fix="leave it out, or name a number")
    return asked


def build() -> CommandParser:
    """The parser of the command line."""
    parser = CommandParser(
        prog=NAME, description=ABOUT, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", metavar="SOURCE", nargs="+")
    parser.add_argument("--prompts", dest="file", metavar="FILE", help="YAML, or a prompt a line")
    columns = parser.add_argument_group("columns")
    columns.add_argument("--newest", action="store_true", help="of each run its newest checkpoint alone")
    columns.add_argument("--base-model", action="store_true", help="and the weights that the runs started from")
    columns.add_argument("--ema", action="store_true", help="averaged weights (where there are any)")
    columns.add_argument("--raw", action="store_true", help="those of the step itself; with --ema both")
    columns.add_argument(
        "--ema-width", type=widths, action=Further, default=[], help="averages of other widths, from a run's snapshots"
    )
    columns.add_argument(
        "--adapter",
        metavar="FILE[:STRENGTH]",
        action="append",
        default=[],
        help="a LoRA or its kin on top, each a column; repeatable",
    )
    columns.add_argument(
        "--strength", type=numbers, action=Further, default=[], help="of adapters, a run's own too: 0,0.5,1"
    )
    columns.add_argument(
        "--guidance",
        type=scales,
        action=Further,
        default=[],
        help="scales of classifier-free guidance: 3,5,7.5 (the run's, else 7.5)",
    )
    add_pictures(parser.add_argument_group("pictures (a prompt's own settings in FILE win)"))
    add_encoders(parser.add_argument_group("text encoders of a single file that comes without, as those of SD 3"))
    add_machine(parser)
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="a folder of its own (logs/compare/<name>-<what is asked>)"
    )
    add_own_code(parser)
    return parser


class Further(argparse.Action):
    """Numbers that a repeated option adds to those before, each once."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        found = [*getattr(namespace, self.dest), *(values or ())]
        if len(set(found)) < len(found):
            parser.error(f"argument {option_string}: it has a number twice")
        setattr(namespace, self.dest, found)


def scales(text: str) -> list[float]:
    """Scales of guidance, apart by commas."""
    return [guidance(part) for part in text.split(",")]


def numbers(text: str) -> list[float]:
    """Finite numbers, apart by commas."""
    found = [float(part) for part in text.split(",")]
    if not all(abs(number) < float("inf") for number in found):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of finite numbers such as 0,0.5,1")
    return found
