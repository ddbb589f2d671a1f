"""The pictures of a folder with what is known of each: what annotators are asked about and descriptions are made of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from lun.config.signature import accepted_by
from lun.config.targets import find_target
from lun.data.building import build_dataset
from lun.data.dataset_protocol import PACKABLE, DatasetAccess
from lun.data.images.loss_masks import FOLDER, mask_file
from lun.data.index.listing import stem
from lun.data.metadata.caption_files import one_line

PLAIN_LAYOUTS = ("flat", "sidecar", "kohya")


class AnnotatedFolder:
    """A dataset whose pictures are files below one `root`. Raises `Fault` CFG08 for any other."""

    def __init__(self, dataset: Any) -> None:
        access = DatasetAccess(dataset)
        if not access.has(*PACKABLE, "selection", "path"):
            why = "only a folder of files can be annotated"
            raise Fault("CFG08", f"{access.name} cannot be annotated", why=why, fix="annotate the folder, then pack it")
        self.dataset = dataset
        self.root: Path = dataset.root
        self.layout = str(dataset.selection.contents.layout)
        self._captions: str = dataset.selection.contents.captions

    @classmethod
    def of(cls, recipe: Mapping[str, Any], split: str) -> AnnotatedFolder:
        """What a recipe selects, pictures without a caption among it."""
        params = dict(recipe.get("params") or {})
        if "allow_empty_captions" in accepted_by(find_target(recipe["target"])).parameters:
            params["allow_empty_captions"] = True
        return cls(build_dataset({**recipe, "params": params}, split))

    def __len__(self) -> int:
        return len(self.dataset)

    def name(self, index: int) -> str:
        """The path below the root."""
        return str(self.dataset.name(index))

    def path(self, index: int) -> Path:
        return Path(self.dataset.path(index))

    @property
    def has_text_files(self) -> bool:
        """Whether captions are files beside the pictures, and no description's."""
        return self.layout in PLAIN_LAYOUTS

    def has_text_file(self, index: int) -> bool:
        return bool(self._table.source[self._row(index)])

    def text_file(self, index: int) -> Path:
        """Where the layout looks for the caption of a picture."""
        own = stem(Path(self.name(index)).name)
        if self.layout == "flat":
            return self.root / self._captions.format(stem=own)
        return self.path(index).with_name(own + ".txt")

    def has_mask(self, index: int) -> bool:
        return mask_file(self.path(index), self.root) is not None

    def mask_file(self, index: int) -> Path:
        """Where `mask: folder` looks for the mask of a picture first."""
        inside = Path(self.name(index))
        return self.root / FOLDER / inside.with_name(stem(inside.name) + ".png")

    def description(self, index: int) -> dict[str, Any]:
        """All that the folder says of a picture, as a line of `metadata.jsonl` says it."""
        known = dict(self.dataset.record(index))
        known.pop("path", None)
        text = known.pop("caption", None)
        row = self._row(index)
        entry: dict[str, Any] = {"file_name": self.name(index)}
        if text is not None:
            lines = [one_line(text)] if self.has_text_files else text.split("\n")
            entry["text"] = lines[0] if len(lines) == 1 else lines
        if (repeats := int(self._table.repeats[row])) != 1:
            entry["repeats"] = repeats
        if (weight := float(self._table.weight[row])) != 1:
            entry["weight"] = weight
        return entry | known

    @property
    def _table(self) -> Any:
        return self.dataset.selection.contents.table

    def _row(self, index: int) -> int:
        return int(self.dataset.rows[index])
