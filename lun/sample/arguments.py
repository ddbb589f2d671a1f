"""What the command line of `python -m lun.sample` says."""

import argparse
import math
import re
from collections.abc import Sequence
from typing import Any

from ldm.errors import Fault
from ldm.scheduler_names import Scheduler, scheduler_named
from lun.cli.command_parser import CommandParser

NAME = "python -m lun.sample"
ABOUT = """draw pictures from a run, a checkpoint or a published model

  SOURCE  a run directory (its newest checkpoint), a file of a run, a .safetensors or .ckpt file of a whole model,
          a diffusers folder, or the hub id of one

Without prompts a run's own are drawn, with the settings and seeds of its pictures during training. The same line draws
the same pictures again: seeds count from --seed on, and what a picture was made with is written into it."""
EXAMPLES = """examples
  python -m lun.sample logs/latest "fox, purple background" --count 4
  python -m lun.sample mine.safetensors --prompts prompts.txt --steps 30 --scheduler dpmpp

a line of prompts.txt, with kohya's options:  a cat --n blurry --w 512 --h 768 --d 7 --l 7.5 --s 30 --ss euler"""


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options by name. `Fault` CLI03 for what cannot be understood; SystemExit after `--help`."""
    return build().parse_args(list(words))


def build() -> CommandParser:
    """The parser of the command line."""
    parser = CommandParser(
        prog=NAME, description=ABOUT, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("prompts", metavar="PROMPT", nargs="*", help="what to draw")
    parser.add_argument("--prompts", dest="file", metavar="FILE", help="YAML, or a prompt a line")
    group = parser.add_argument_group("pictures (a prompt's own settings in FILE win)")
    add_pictures(group)
    group.add_argument("--guidance", type=guidance, help="classifier-free guidance, 1 is none (the run's, else 7.5)")
    _weights(parser.add_argument_group("weights"))
    parser.add_argument(
        "--adapter",
        metavar="FILE[:STRENGTH]",
        action="append",
        default=[],
        help="a LoRA or its kin on top, as much of it as STRENGTH says (1); repeatable",
    )
    add_encoders(parser.add_argument_group("text encoders of a single file that comes without, as those of SD 3"))
    parser.add_argument(
        "--embedding",
        metavar="FILE[=WORD]",
        action="append",
        default=[],
        help="a textual inversion, and the word for it in prompts (the file's own); repeatable",
    )
    add_machine(parser)
    parser.add_argument("-o", "--output", metavar="DIR", help="a new folder (logs/samples/<time>_<name>)")
    parser.add_argument(
        "--captions", action="store_true", help="a data set: each prompt as a .txt beside its picture, and no sheet"
    )
    add_own_code(parser)
    return parser


def add_machine(parser: Any) -> None:
    """Where and in which type pictures are drawn, and how many at once."""
    parser.add_argument(
        "--batch", type=_positive, default=4, help="pictures drawn at once (4); 1 draws each as if alone"
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1, mps (an accelerator if there is one)")
    parser.add_argument("--dtype", choices=("fp32", "fp16", "bf16"), default="fp32", help="of the networks (fp32)")


def add_own_code(parser: Any) -> None:
    """What a model may name of the person's own."""
    parser.add_argument("--allow", metavar="MODULE", action="append", default=[], help="code of yours")
    parser.add_argument(
        "--family", metavar="NAME", action="append", default=[], help="a family: an installed one, or your MODULE.NAME"
    )


def add_pictures(group: Any) -> None:
    """How each picture is drawn, but for the scale of its guidance."""
    group.add_argument("--count", type=_positive, default=1, help="pictures of each prompt (1)")
    group.add_argument("--seed", type=_seed, default=42, help="of the first, counting up; -1 draws one (42)")
    group.add_argument("--steps", type=_positive, help="of the solver (the run's, else 50)")
    group.add_argument("--guidance-rescale", type=_share, help="0 to 1: spread of the guided output as without (0)")
    group.add_argument("--guidance-low", type=guidance, help="guidance only above this sigma / alpha (0)")
    group.add_argument("--guidance-high", type=guidance, help="and up to this one (no limit)")
    group.add_argument("--scheduler", type=_scheduler, help="ddim, euler or dpmpp (ddim)")
    group.add_argument("--size", type=size, help="512 or 512x768, width first (the model's)")
    group.add_argument("--negative", metavar="TEXT", help="what guidance leads away from")


def _weights(parser: Any) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--ema", dest="ema", action="store_true", default=None, help="averaged (where there are any)")
    group.add_argument("--raw", dest="ema", action="store_false", help="those of the last step")


def add_encoders(group: Any) -> None:
    """Text encoders beside a file that has none."""
    group.add_argument(
        "--text-encoder",
        metavar="NAME=FILE",
        action="append",
        default=[],
        help="clip=clip_l.safetensors, open_clip=FILE, t5=FILE; t5=null goes without, on zeros; repeatable",
    )
    group.add_argument("--tokenizer", metavar="FOLDER", help="of T5: one that has its tokenizer.json, or a pipeline's")


def text_encoders(words: Sequence[str]) -> dict[str, str | None]:
    """{name: file} of `t5=t5xxl_fp16.safetensors`; None for null. Raises `Fault` CLI03 for what is neither."""
    found: dict[str, str | None] = {}
    for word in words:
        name, _, file = word.partition("=")
        if not (name and file):
            fix = "--text-encoder t5=t5xxl_fp16.safetensors"
            raise Fault("CLI03", f"--text-encoder takes NAME=FILE, not {word!r}", where=NAME, fix=fix)
        found[name] = None if file == "null" else file
    return found


def size(text: str) -> tuple[int, int]:
    """(width, height) of `512` or `512x768`."""
    match = re.fullmatch(r"([1-9]\d{0,5})(?:[xX]([1-9]\d{0,5}))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 512 or 512x768")
    return int(match[1]), int(match[2] or match[1])


def _seed(text: str) -> int:
    if not re.fullmatch(r"\d+|-1", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on, nor -1")
    return int(text)


def guidance(text: str) -> float:
    """A scale of guidance. Raises ValueError, which argparse prints, for what is no number at all."""
    number = float(text)
    if not (math.isfinite(number) and number >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no finite number from 0 on")
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return number


def _scheduler(text: str) -> Scheduler:
    try:
        return scheduler_named(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no solver: {error}") from error


def _positive(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)
