"""The user's own folder of images with captions."""

import hashlib
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.admission import configurable
from ldm.diffusion.draws import Draws
from ldm.modules.encoders.captions import Caption, for_each
from lun.data.example import FURTHER_CAPTIONS, Example
from lun.data.images.decode import header_size
from lun.data.images.loss_masks import mask_file, require_masks
from lun.data.images.preparation import require
from lun.data.images.prepared_pictures import PreparedPictures
from lun.data.index.missing_data import no_further_captions
from lun.data.index.selection import SelectionCriteria, Split, Subset, select
from lun.data.index.sizes import file_states, image_sizes
from lun.data.layouts.folder_contents import LayoutName
from lun.data.metadata.params import CaptionParams, MetadataParams, merged_rules
from lun.data.metadata.table_builder import MOST_REPEATS
from lun.data.metadata.tag_column import TagColumn
from lun.data.order.law import Size
from lun.data.selected_captions import SelectedCaptions


@configurable
class Local(PreparedPictures):
    """Images and captions under `data_root`, in any of the layouts of `lun/README.md`.

    layout                which layout the folder has; None recognises it
    metadata_params       which pictures are used and how captions are made of tags
    captions              how captions are made, for folders without descriptions to filter by
    split, subset         hold a share of the pictures back for validation, and which part this is
    repeats               how often each picture comes in one epoch, times what its folder or description says
    folder_weights        folder -> how much its pictures count in the loss, times what their descriptions say
    limit_images          use only so many, always the same ones whatever else lies in the folder's listing
    default_caption       text for images without a caption; None leaves those images out
    allow_empty_captions  keep images without a caption, with an empty one
    caption_per_encoder   give the second and third text encoder of a model (SDXL, SD 3) captions of their own, with
                          trigger words, prefix and suffix: `caption_2` and `caption_3` of descriptions, or files
                          `NAME.txt2` and `NAME.txt3` beside `NAME.txt`; without one, an encoder gets the caption
    follow_links          read what links out of `data_root` lead to as well
    pictures              what becomes of the pixels: settings of `lun.data.images.preparation.Preparation`

    What samplers and caches need is given in columns, without opening a picture: `sizes`, `repeats`, `weights`,
    `fingerprint`, `path`, `caption`; `example` takes the size that a bucket asks for.

    data_root  the folder; `--data_root DIR` on the command line
    """

    def __init__(
        self,
        data_root: str,
        metadata_params: MetadataParams | None = None,
        limit_images: int | None = None,
        layout: LayoutName | None = None,
        captions: CaptionParams | None = None,
        split: Split | None = None,
        subset: Subset | None = None,
        repeats: int = 1,
        folder_weights: dict[str, float] | None = None,
        default_caption: str | None = None,
        allow_empty_captions: bool = False,
        follow_links: bool = False,
        caption_per_encoder: bool = False,
        **pictures: Any,
    ) -> None:
        super().__init__(**pictures)
        _check(limit_images, repeats)
        self.follow_links = follow_links
        self.times = repeats
        self.folder_weights = folder_weights or {}
        self.rules = merged_rules(metadata_params, captions)
        choice = SelectionCriteria(
            rules=self.rules,
            layout=layout,
            described=metadata_params is not None,
            captions_required=default_caption is None and not allow_empty_captions,
            split=split,
            subset=subset,
            limit=limit_images,
            follow_links=follow_links,
            masked=self.prepared.mask == "folder",
        )
        self.selection = select(data_root, choice)
        self.root = self.selection.root
        require_masks(self.root, self.prepared.mask)
        self.table = self.selection.table
        self.rows = self.selection.rows
        """the rows of `table` that are examples, in their order"""
        described = metadata_params is not None
        self.captions = SelectedCaptions(self.selection, self.rules, described, default_caption or "", follow_links)
        self.captions.require_files(self.rows)
        self.captions.require_tags(self.rows)
        self.compose = self.captions.maker.compose
        self.caption_per_encoder = caption_per_encoder
        if caption_per_encoder and not any(self.further_captions(index) for index in range(len(self.rows))):
            raise no_further_captions(self.root)

    @classmethod
    def require_settings(cls, params: Mapping[str, Any]) -> None:
        """Raise the `Fault` of params that no folder could mend."""
        cls.require_preparation(params)
        _check(params.get("limit_images"), params.get("repeats", 1))
        merged_rules(params.get("metadata_params"), params.get("captions"))

    def __len__(self) -> int:
        return len(self.rows)

    def example(self, index: int, draws: Draws, size: Size | None = None) -> Example:
        """Image (h, w, 3) uint8 and caption number `index`, cut, coloured and mirrored as `draws` decide.

        `size` = (width, height) is that of a bucket: the picture is cropped to its shape; without it, to the square
        `self.size`. `original_size`, `crop` and `target_size` say what became of it. Raises `Fault` DAT06 for a broken
        image, DAT04 for a caption that cannot be read.
        """
        texts = {"caption": self.caption(index, draws), **self.further_captions(index)}
        return {**self.picture(index, self.flipped(draws), size, draws), **texts}  # type: ignore[typeddict-item]  # all of it text

    def picture(self, index: int, flipped: bool, size: Size | None = None, draws: Draws | None = None) -> Example:
        """Everything of example `index` that its pixels decide: image, mask, and where the cut lies.

        draws  of what else is left to chance; without them nothing is
        """
        pixels = self.prepared.picture(self.path(index), self._mask(index), flipped, size, draws)
        return {**pixels, **self.placement(index, flipped, size, draws)}

    def _mask(self, index: int) -> Path | None:
        """The file of its mask, where one is looked for and there."""
        if self.prepared.mask != "folder":
            return None
        return mask_file(self.path(index), self.root, self.follow_links)

    def files(self, index: int) -> list[Path]:
        """Every file that the pixels of example `index` come from."""
        beside = self._mask(index)
        return [self.path(index), beside] if beside else [self.path(index)]

    def placement(self, index: int, flipped: bool, size: Size | None = None, draws: Draws | None = None) -> Example:
        """Sizes in (height, width) pixels, the crop's (top, left) in those of the resized picture, mirrored or not."""
        known = "_sizes" in vars(self)  # one header is not worth reading all of them, in each worker
        width, height = map(int, self.sizes()[index]) if known else header_size(self.path(index))
        return self.prepared.placement((width, height), flipped, size, draws)

    def caption(self, index: int, draws: Draws | None = None) -> str:
        """The caption of example `index`, made anew; without `draws` nothing is left to chance."""
        return self.captions.made(int(self.rows[index]), draws)

    def further_captions(self, index: int) -> dict[str, str]:
        """{`caption_2`, `caption_3`: caption of example `index` for the second, the third text encoder}, as far as it
        has any of its own."""
        return self.captions.further(int(self.rows[index])) if self.caption_per_encoder else {}

    def caption_count(self, index: int) -> int:
        """How many captions example `index` has, one of which is drawn at each access."""
        return self.captions.count(int(self.rows[index]))

    @property
    def captions_settled(self) -> bool:
        """Whether every access to an example gives one of its `settled_captions`."""
        return not self.compose.draws

    def settled_captions(self, index: int) -> list[Caption]:
        """The captions of example `index` that do not change from access to access: what is worth being cached.

        Each of several lines has its own; none are given where every access drops or shuffles tags.
        """
        further = [self.further_captions(index).get(key) for key in FURTHER_CAPTIONS]
        return [for_each(caption, further) for caption in self.captions.settled(int(self.rows[index]))]

    def record(self, index: int) -> dict[str, Any]:
        """Everything that is known of example `index` besides its pixels, as a packed set keeps it (plain JSON)."""
        return {"path": self.name(index), **self.captions.record(int(self.rows[index]))}

    def recorded(self) -> dict[str, bool]:
        """What holds for all records: `lines` of a text are one caption, some have `tags`, some pictures `masks`, some
        captions for `further` text encoders."""
        known = self.captions.known
        return {
            "lines": self.captions.in_files,
            "tags": bool(len(known.tags.values)),
            "masks": self.prepared.mask == "folder",
            "further": any(self.captions.further(int(row)) for row in self.rows),
        }

    def written(self, index: int) -> tuple[str, list[str]]:
        """(text, tags) of example `index` as its files have them, before any rule."""
        return self.captions.written(int(self.rows[index]))

    def name(self, index: int) -> str:
        """Path of image `index` below the root, with `/`."""
        return self.table.path[int(self.rows[index])]

    def names(self) -> list[str]:
        """Paths of all images below the root."""
        return self.table.path.at(self.rows)

    def path(self, index: int) -> Path:
        """The file of image `index`."""
        return self.root / self.name(index)

    def paths(self) -> list[str]:
        """The files of all images, links in the root's own path followed."""
        root = os.path.realpath(self.root)
        return [os.path.join(root, name) for name in self.names()]

    def tags(self) -> TagColumn | None:
        """The tags of descriptions, before any rule; None where there are only captions."""
        if not len(self.table.tags.values):
            return None
        return TagColumn(self.table.words, self.table.tags.take(self.rows))

    def file_bytes(self) -> NDArray[np.int64]:
        """(n,) size of each image's file; -1 for one that cannot be looked at."""
        return self._states[:, 0]

    def sizes(self) -> NDArray[np.int32]:
        """(n, 2) width and height of each image, turned upright; 0 where the file is no image.

        Read from the headers at the first call and kept with the index, so that another start reads none of them.
        """
        return self._sizes

    def repeats(self) -> NDArray[np.int64]:
        """(n,) how often each image comes in one epoch: its folder's or description's number times `repeats`."""
        repeats: NDArray[np.int64] = self.table.repeats[self.rows].astype(np.int64) * self.times
        return np.maximum(repeats, 1)

    def weights(self) -> NDArray[np.float32] | None:
        """(n,) how much each image counts in the loss; None where all count 1."""
        weights = np.array(self.table.weight[self.rows], np.float32)
        if self.folder_weights:
            weights *= np.array([self._folder_weight(name) for name in self.names()], np.float32)
        return None if (weights == 1).all() else weights

    def _folder_weight(self, name: str) -> float:
        """That of the nearest folder that has one."""
        folder = name
        while folder:
            folder = folder.rpartition("/")[0]
            if folder in self.folder_weights:
                return self.folder_weights[folder]
        return 1.0

    def fingerprint(self) -> str:
        """sha256 over path, size in bytes and repeats of every image: the same for a copy of the folder elsewhere."""
        return self._fingerprint

    @cached_property
    def _states(self) -> NDArray[np.int64]:
        return file_states(self.root, self.names())

    @cached_property
    def _sizes(self) -> NDArray[np.int32]:
        return image_sizes(self.root, self.names(), self._states)

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        facts = zip(self.names(), self._states[:, 0].tolist(), self.repeats().tolist(), strict=True)
        for path, size, repeats in sorted(facts):
            digest.update(path.encode("utf-8", "surrogatepass") + f"\0{size}\0{repeats}\n".encode())
        return digest.hexdigest()


def _check(limit_images: int | None, repeats: int) -> None:
    require(limit_images is None or limit_images > 0, "limit_images", limit_images, "a number above 0, or null")
    require(0 < repeats <= MOST_REPEATS, "repeats", repeats, f"a number from 1 to {MOST_REPEATS:,}")
