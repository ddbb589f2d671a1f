"""What the commands that draw settle of their words before anything heavy is imported."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ldm.files.weights_path import path_of_weights
from lun.cli.user_code import admit_user_code
from lun.console import log as console
from lun.previews.prompt_grammar import Prompt, read_prompts
from lun.sample.arguments import text_encoders


@dataclass(frozen=True)
class DrawingRequest:
    """The prompts of `--prompts`, and the files of text encoders by name (None goes without)."""

    prompts: tuple[Prompt, ...]
    encoders: dict[str, str | None]

    @classmethod
    def of(cls, asked: argparse.Namespace, sources: Sequence[str]) -> "DrawingRequest":
        """Begin the log, admit the person's own code, and read what the options and `sources`, the models, name.

        Raises `Fault` CLI03 and CFG01 for prompts and text encoders, MOD01 for weights that are not there.
        """
        console.configure(None)
        admit_user_code(asked.allow, families=asked.family)
        prompts = read_prompts(Path(asked.file)) if asked.file else []
        encoders = text_encoders(asked.text_encoder)
        for given in sources:
            path_of_weights(given)
        return cls(tuple(prompts), encoders)
