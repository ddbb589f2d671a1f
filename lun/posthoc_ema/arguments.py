"""What the command line of `python -m lun.posthoc_ema` says."""

import argparse
from collections.abc import Sequence

from lun.cli.command_parser import CommandParser
from lun.posthoc_ema.picture_options import add_picture_options, settle_picture_options

NAME = "python -m lun.posthoc_ema"


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The subcommand as `command`, and its options. `Fault` CLI03 or CLI05 for what cannot be understood."""
    parser = CommandParser(prog=NAME, description="Averages of any width from the snapshots of a run, after training.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=CommandParser)
    _inspect(commands.add_parser("inspect", help="which snapshots a run has, and which widths they reach"))
    _plan(commands.add_parser("plan", help="before training: error, conditioning and size of a choice of widths"))
    _reconstruct(commands.add_parser("reconstruct", help="write the average of a width, at any step"))
    _sweep(
        commands.add_parser(
            "sweep", help="compare averages by a number of the validation, or of pictures that they draw"
        )
    )
    _verify(commands.add_parser("verify", help="how far one file of weights is from another"))
    _export(commands.add_parser("export", help="write an average that a checkpoint holds"))
    asked = parser.parse_args(list(words))
    if asked.command == "sweep":
        settle_picture_options(asked)
    return asked


def _inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="a run directory")


def _plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--widths", type=widths, default=[0.05, 0.10], help="tracked together (0.05,0.10)")
    parser.add_argument("--count", type=int, default=16, help="snapshots of each over the run (16)")
    parser.add_argument("--targets", type=widths, default=widths("0.03:0.25:12"), help="wanted: 0.08 or 0.03:0.25:12")
    parser.add_argument("--parameters", type=float, default=859.5e6, help="trained weights (859.5e6, SD 1.x's UNet)")
    parser.add_argument("--png", help="draw the errors")


def _reconstruct(parser: argparse.ArgumentParser) -> None:
    _averages(parser)
    parser.add_argument("--dtype", choices=("fp32", "fp16", "bf16"), default="fp32")
    parser.add_argument(
        "--sweep", action="store_true", help="validate each width instead of writing it, as `sweep` does"
    )
    parser.add_argument("-o", "--out", help="a new .safetensors file; {width} in it stands for the width or name")
    parser.set_defaults(metric=None)


def _sweep(parser: argparse.ArgumentParser) -> None:
    _averages(parser)
    parser.add_argument(
        "--metric", metavar="NAME", help="what the validation logs (val/loss_simple), or clip_score and its like, below"
    )
    parser.add_argument(
        "-o",
        "--out",
        help="what the new files are called, without their ends (RUN/ema-snapshots/sweep, sweep-METRIC of pictures)",
    )
    add_picture_options(parser)
    parser.set_defaults(sweep=True)


def _averages(parser: argparse.ArgumentParser) -> None:
    """Which averages, of what."""
    parser.add_argument("run", help="a run directory")
    parser.add_argument("--width", type=widths, default=[], help="0.08, or several: 0.05,0.10 or 0.02:0.25:9")
    parser.add_argument("--averages", metavar="YAML", help="other ones: NAME: {target: ..., params: {...}} each")
    parser.add_argument("--step", type=int, help="as if training had ended there (the last snapshot)")
    parser.add_argument("--base-weight", type=float, default=0.0, help="share of the weights before training (0)")
    parser.add_argument("--allow", action="append", default=[], help="code of yours that the run or YAML names")
    parser.add_argument("--force", action="store_true", help="also beyond a predicted error of 5 %%")


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="a .safetensors file")
    parser.add_argument("--against", required=True, help="the .safetensors file that it should equal")
    parser.add_argument("--base", help="weights before training: distances become shares of what training moved")
    parser.add_argument("--tolerance", type=float, default=0.05, help="largest share that is good (0.05)")


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="a run directory or a checkpoint")
    parser.add_argument("--track", default="ema", help="ema, or power-0.05 and so on")
    parser.add_argument("-o", "--out", required=True, help="a new .safetensors file")


def widths(text: str) -> list[float]:
    """0.08; 0.05,0.1; or first:last:count, evenly spaced in their logarithms."""
    try:
        if ":" in text:
            first, last, count = text.split(":")
            low, high, n = float(first), float(last), int(count)
            return [round(low * (high / low) ** (i / (n - 1)), 6) for i in range(n)]
        return [float(part) for part in text.split(",")]
    except (ValueError, ZeroDivisionError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of widths such as 0.05,0.10 or 0.02:0.25:9") from error
