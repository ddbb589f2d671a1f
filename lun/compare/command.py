"""The command: find what is compared, draw the cells that are missing model by model, and show all of them."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldm.errors import Fault
from lun.compare.arguments import NAME, parse
from lun.console.ending import reported
from lun.previews.prompt_grammar import Prompt
from lun.run_dir.claim import writing_into
from lun.sample.drawing_request import DrawingRequest

if TYPE_CHECKING:
    from lun.compare.compared_sources import ComparedSource

log = logging.getLogger(__name__)

OURS = {"cells", "sheet.png", "compare.html", "compare.json", ".writing"}


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says (`sys.argv` by default) and return the exit code; nothing is raised."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _start(words), [NAME, *words])


def _start(words: list[str]) -> int:
    asked = parse(words or ["--help"])
    request = DrawingRequest.of(asked, asked.sources)
    folder = folder_of(asked)
    _require_free(folder)
    # Imports torch, which takes seconds; everything above has answered by then.
    from lun.compare.compared_columns import columns_of, require_snapshots
    from lun.compare.compared_sources import compared_sources, settings_of_first_run
    from lun.compare.drawing_columns import DrawnComparison

    sources = compared_sources(asked.sources, asked.newest, asked.base_model)
    require_snapshots(sources, asked.ema_width)
    shared = settings_of_first_run(sources)
    prompts = request.prompts or _own_prompts(shared, sources)
    _require_unguided(prompts, asked.guidance)
    with writing_into(folder, "-o"):
        comparison = DrawnComparison(folder, columns_of(sources, asked), prompts, asked, shared, [NAME, *words])
        comparison.draw()
    log.info("look     %s", folder / "compare.html")
    return 0


def folder_of(asked: argparse.Namespace) -> Path:
    """Where to write: `-o`, else a folder that the same line finds again."""
    if asked.output is not None:
        return Path(asked.output)
    meant = [str(Path(given).resolve()) if Path(given).exists() else given for given in asked.sources]
    said = {name: value for name, value in vars(asked).items() if name not in ("sources", "batch", "output")}
    digest = hashlib.sha256(json.dumps([meant, said], default=str).encode()).hexdigest()
    return Path("logs") / "compare" / f"{Path(meant[0]).name}-{digest[:8]}"


def _require_free(folder: Path) -> None:
    """Raise `Fault` CLI04 for a folder that holds anything but a comparison."""
    if folder.is_dir() and (others := sorted({entry.name for entry in folder.iterdir()} - OURS)):
        why = f"it holds {others[0]}, which is of no comparison"
        raise Fault(
            "CLI04", f"{folder} is there already", where="-o", why=why, fix="name a new folder, or an empty one"
        )


def _own_prompts(shared: Mapping[str, Any], sources: Sequence[ComparedSource]) -> list[Prompt]:
    from lun.previews.prompts import prompts_of

    if prompts := prompts_of(shared.get("prompts", ())):
        return prompts
    why = f"{sources[-1].name} has no prompts of its own"
    raise Fault("CLI03", "nothing says what to draw", why=why, where="--prompts", fix="--prompts FILE")


def _require_unguided(prompts: Sequence[Prompt], scales: Sequence[float]) -> None:
    """Raise `Fault` CFG08 for a prompt whose own guidance would make columns of other scales equal."""
    own = next((prompt for prompt in prompts if "guidance" in prompt.settings), None)
    if len(scales) > 1 and own:
        what = f"--guidance varies what the prompt {own.text!r} says itself"
        raise Fault("CFG08", what, where=own.where or "--guidance", fix="leave one of them out")
