"""The command: which pictures, which annotator, where it is put down, and what a person reads of it."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldm.errors import Fault
from ldm.plain import parse_json
from ldm.shell import quoted
from lun.cli.command_parser import CommandParser
from lun.cli.recipe_arguments import add_recipe_arguments, of_given_folder, recipe_of, recipe_split
from lun.cli.user_code import admit_user_code
from lun.console import log as console
from lun.console.ending import reported
from lun.data.index.missing_folder import require_folder

if TYPE_CHECKING:
    from lun.annotate.annotated_folder import AnnotatedFolder
    from lun.annotate.annotating import Annotated
    from lun.annotate.annotator import Annotator, AnnotatorChoice
    from lun.annotate.outputs import Output

log = logging.getLogger(__name__)

_NAMED = 10
"""Unreadable pictures that are listed by name."""

COMMAND = "python -m lun.annotate"
_ABOUT = """captions, tags, scores or masks for pictures that have none, by weights that you have

  --with caption    a model of transformers that makes text of pictures (BLIP, Florence-2, ...): NAME.txt each
  --with tag        a WD tagger, model.onnx with selected_tags.csv: NAME.txt each
  --with score      a classifier of pictures, or CLIP with --param head=FILE: DIR/metadata.jsonl with all that is known
  --with mask       CLIPSeg, with --param text=WHAT_COUNTS: mask/NAME.png each
  --with MODULE.C   a class of your own (lun/README.md)

nothing that is there is overwritten; a command that was killed goes on where it was when it is started again"""
_EXAMPLES = """examples
  python -m lun.annotate DIR --with caption --model models/blip --param max_tokens=40
  python -m lun.annotate DIR --with mask --model models/clipseg --param text="a person" --batch 16 --device cuda"""


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _start(_parsed(words)), [COMMAND, *words])


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog=COMMAND, description=_ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_recipe_arguments(parser)
    parser.add_argument("--with", dest="annotator", required=True, metavar="NAME", help="what describes them, as above")
    parser.add_argument("--model", metavar="PATH", help="its weights: a folder on this machine, safetensors or onnx")
    parser.add_argument(
        "--param", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="what else it takes (YAML)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="a .jsonl file with all that is known of the set")
    parser.add_argument("--replace", action="store_true", help="in that file, describe anew what is known already")
    parser.add_argument(
        "--merge", action="store_true", help="let it take the place of a file that is there, which is kept beside it"
    )
    parser.add_argument("--batch", type=int, default=8, metavar="N", help="pictures at a time (8)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, mps (an accelerator if there is one)")
    parser.add_argument("--dtype", choices=("fp32", "fp16", "bf16"), help="of the weights (fp32)")
    return parser.parse_args(words)


def _start(asked: argparse.Namespace) -> int:
    with of_given_folder(asked, f"{COMMAND} --with {quoted(asked.annotator)}"):
        return _annotate(asked)


def _annotate(asked: argparse.Namespace) -> int:
    console.configure(None)
    admit_user_code(asked.allow)
    if asked.batch < 1:
        raise Fault("CLI03", f"--batch cannot be {asked.batch}", why="it takes a number above 0")
    recipe = recipe_of(asked, f"{COMMAND} --with {quoted(asked.annotator)}", "annotate")
    require_folder(recipe, recipe_split(asked))
    # torch and transformers, which take seconds; whatever is wrong with the words alone was reported before
    from lun.annotate.annotated_folder import AnnotatedFolder
    from lun.annotate.annotating import Annotating
    from lun.annotate.annotator import build_annotator, require_annotator

    wanted = _wanted(asked)
    require_annotator(wanted)
    folder = AnnotatedFolder.of(recipe, recipe_split(asked))
    annotator = build_annotator(wanted)
    output = _output(asked, folder, annotator, wanted)
    done = Annotating(folder, annotator, output, asked.batch).run()
    return _report(done, output)


def _wanted(asked: argparse.Namespace) -> AnnotatorChoice:
    from lun.annotate.annotator import AnnotatorChoice, parsed_params

    flags = {name: getattr(asked, name) for name in ("model", "device", "dtype")}
    return AnnotatorChoice(
        asked.annotator, {name: given for name, given in flags.items() if given}, parsed_params(asked.param)
    )


def _output(
    asked: argparse.Namespace, folder: AnnotatedFolder, annotator: Annotator, wanted: AnnotatorChoice
) -> Output:
    """Files beside the pictures, or one description. Raises `Fault` CLI03 for what has no effect on the former."""
    from lun.annotate.description_file import METADATA, DescriptionFile
    from lun.annotate.outputs import MaskFiles, TextFiles

    columns = list(annotator.columns)
    if "mask" in columns:
        _require_alone("mask", columns)
        _require_no_file_flags(asked)
        return MaskFiles(folder)
    if columns in (["caption"], ["tags"]) and asked.output is None:
        _require_text_files(folder, METADATA)
        _require_no_file_flags(asked)
        return TextFiles(folder)
    file = Path(asked.output) if asked.output else folder.root / METADATA
    if file.suffix != ".jsonl":
        fix = "-o " + quoted(file.with_suffix(".jsonl"))
        raise Fault("CLI03", f"-o takes a .jsonl file, and this is none: {file}", where="-o", fix=fix)
    return DescriptionFile(file, folder, _made_by(wanted), columns, asked.replace, asked.merge)


def _require_text_files(folder: AnnotatedFolder, description: str) -> None:
    if not folder.has_text_files:
        why = f"its layout is {folder.layout}: pictures are described by a file, and caption files are not read"
        fix = f"-o {quoted(folder.root / description)}, or -o ANOTHER.jsonl"
        raise Fault("CLI03", f"{folder.root} has no caption files", where="-o", why=why, fix=fix)


def _require_no_file_flags(asked: argparse.Namespace) -> None:
    flags = {"-o": asked.output, "--replace": asked.replace, "--merge": asked.merge}
    if given := [flag for flag, value in flags.items() if value]:
        why = "files beside the pictures are added where there are none, and never replaced"
        raise Fault("CLI03", f"{', '.join(given)} has no effect here", where=given[0], why=why)


def _require_alone(column: str, columns: Sequence[str]) -> None:
    if len(columns) > 1:
        what = f"the annotator gives {', '.join(columns)}, and {column} goes into files of its own"
        raise Fault("CLI03", what, where="--with", fix=f"an annotator whose only column is {column}")


def _made_by(wanted: AnnotatorChoice) -> Mapping[str, Any]:
    """What distinguishes it: names, sizes and settings, as they come back from JSON."""
    files: dict[str, int] = {}
    if model := wanted.given.get("model"):
        found = [Path(model)] if Path(model).is_file() else sorted(Path(model).glob("*"))
        files = {path.name: path.stat().st_size for path in found if path.is_file()}
    made_by = {"target": wanted.target, "dtype": wanted.given.get("dtype"), "params": wanted.params, "files": files}
    plain: Mapping[str, Any] = parse_json(json.dumps(made_by, default=str))
    return plain


def _report(done: Annotated, output: Output) -> int:
    lines = output.finish()
    log.info("done     %s pictures annotated, %s had it before", f"{done.new:,}", f"{done.before:,}")
    if done.unreadable:
        log.warning("warning[DAT06]: %s pictures cannot be read, and were left out", f"{len(done.unreadable):,}")
        for name, why in done.unreadable[:_NAMED]:
            log.warning("  where: %s: %s", name, why)
        if (more := len(done.unreadable) - _NAMED) > 0:
            log.warning("  and %s more: python -m lun.inspect lists them", f"{more:,}")
    for line in lines:
        log.log(logging.WARNING if line.startswith("warning") else logging.INFO, "%s", line)
    return 0
