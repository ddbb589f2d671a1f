"""Numbers of the pictures that averages draw: the same prompts and seeds, by encoders that a person has."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from ldm.errors import Fault
from lun.cli.user_code import admit_user_code
from lun.config.data_recipes import LOCAL
from lun.data.index.missing_folder import folder_given_by, require_folder
from lun.features.scoring import Encoders, scores_of
from lun.measure.compared_data import ComparedData
from lun.posthoc_ema.averaged_model import with_average
from lun.previews.prompt_grammar import Prompt, read_prompts
from lun.previews.prompts import prompts_of
from lun.sample.drawing import place
from lun.sample.drawn_files import drawn_files
from lun.sample.opened_model import open_source
from lun.sample.pictures import list_pictures

SPLIT = "train"


class ScoredPictures:
    """The model of a run and what it draws; pictures lie in a folder of each average in `folder`."""

    def __init__(self, asked: argparse.Namespace, run: Path, folder: Path) -> None:
        """Raises `Fault` CLI03, CLI04, MOD01 to MOD06, DAT01 or DAT02, DEV01."""
        if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
            raise Fault("CLI04", f"{folder} is there already", where="-o", fix="-o another-name")
        admit_user_code(asked.allow)
        prompts = read_prompts(Path(asked.prompts)) if asked.prompts else []
        recipe = None if asked.data is None else {"target": LOCAL, "params": {"data_root": asked.data}}
        if recipe is not None:
            with folder_given_by("--data", SPLIT):
                require_folder(recipe, SPLIT)
        self._asked, self._folder = asked, folder
        self._encoders = Encoders.load(asked.clip, asked.dino, asked.features, asked.device)
        self._opened = open_source(str(run), False)
        prompts = prompts or _own_prompts(prompts_of(self._opened.pictures.get("prompts", ())), run)
        self._pictures = list_pictures(prompts, asked, self._opened.pictures, self._opened.model)
        self._captions = self._encoders.of_captions([picture.prompt for picture in self._pictures])
        self._data = None
        if recipe is not None:
            with folder_given_by("--data", SPLIT):
                compared = ComparedData.of(recipe, SPLIT, asked.most, len(self._pictures))
            self._data = compared.features(self._encoders)
        place(self._opened.model, asked.device, asked.dtype)

    def numbers(self, name: str, weights: Mapping[str, Tensor]) -> dict[str, float]:
        """All scores of what these weights draw, whose names are those on disk."""
        opened = with_average(self._opened, weights, name)
        paths = [self._folder / name / f"{n:04}-{picture.seed}.png" for n, picture in enumerate(self._pictures)]
        wanted = list(zip(self._pictures, paths, strict=True))
        batches = drawn_files(opened, wanted, self._asked.batch, self._asked.dtype)
        samples = self._encoders.of_pictures(image for batch in batches for image in batch)
        return scores_of(samples, self._data, self._captions)


def _own_prompts(prompts: list[Prompt], run: Path) -> list[Prompt]:
    if not prompts:
        why = f"{run} has no prompts of its own"
        raise Fault("CLI03", "nothing says what to draw", why=why, where="--prompts", fix="--prompts FILE")
    return prompts
