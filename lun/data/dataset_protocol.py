"""What a dataset is: two members that it has to have, and those that it may have besides.

A class needs `__len__` and one of `example(index, draws)` and `__getitem__(index)`; it inherits nothing. Each optional
member makes something possible, and nothing in this program asks for a class instead:

    example(.., size=None), sizes      buckets
    picture, flipped, caption,
    preparation                        latents from a cache
    varied                             latents of several cuts and colours of a picture from a cache
    settled_captions,
    captions_settled                   text states from a cache
    repeats, weights or weigher        how often and how much an example counts
    path                               names in messages, and whether validation reads what training reads
    tags, caption                      tag counts in exported weights
    fingerprint                        whether a resumed run reads the same data
    placement                          SDXL's size conditioning of cached latents
    name, record, recorded             packing into shards
    shard_lengths, window              that few shards are read at a time
    shard_identities                   whether validation reads what training reads, without a path for each example
"""

import hashlib
import inspect
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from ldm.modules.encoders.captions import Caption
from lun.data.example import Example
from lun.data.metadata.tag_column import TagColumn
from lun.data.order.law import Size
from lun.data.order.windows import InShards


class ImageDataset(Protocol):
    """The least that is trained on; a dataset without random choices has `__getitem__(index)` in place of `example`."""

    def __len__(self) -> int: ...

    def example(self, index: int, draws: Draws) -> Mapping[str, Any]:
        """`image` (h, w, 3), uint8 or floats in [-1, 1], and `caption`; all random choices come from `draws`"""


class FullDataset(Protocol):
    """Every member that is asked for, of a dataset of n examples. None but `example` may open a picture's pixels."""

    def __len__(self) -> int: ...

    def example(self, index: int, draws: Draws, size: Size | None = None) -> Mapping[str, Any]:
        """as of `ImageDataset`; with `size` (width, height) the picture is cut to it"""

    def sizes(self) -> NDArray[np.integer[Any]]:
        """(n, 2) width and height of each picture, upright; 0 where it cannot be read"""

    def repeats(self) -> NDArray[np.integer[Any]]:
        """(n,) how often each example is read in one epoch, at least once"""

    def weights(self) -> NDArray[np.floating[Any]] | None:
        """(n,) how much each example counts in the loss; None: all alike"""

    def path(self, index: int) -> Path | str:
        """the file of an example; a str is any name that no other example has"""

    def paths(self) -> Sequence[str]:
        """(n,) `path` of all of them, absolute, where that is faster"""

    def files(self, index: int) -> Iterable[Path]:
        """every file that the pixels come from, where there are more than `path`"""

    def fingerprint(self) -> str:
        """a hash that changes with the examples and their order"""

    def tags(self) -> TagColumn | Sequence[Sequence[str]]:
        """(n,) the tags of each example, before any rule or draw"""

    def caption(self, index: int, draws: Draws | None = None) -> str:
        """the caption as `draws` decide; without them nothing is left to chance"""

    def picture(self, index: int, flipped: bool, size: Size | None = None, draws: Draws | None = None) -> Example:
        """what of an example its pixels decide: `image`, `mask`, sizes; `draws` are given where it is `varied`"""

    @property
    def varied(self) -> bool:
        """whether more of a picture than its mirroring is left to chance"""

    def flipped(self, draws: Draws) -> bool:
        """whether an example with these draws is mirrored"""

    def preparation(self) -> str:
        """what the pixels depend on besides the file, the mirroring and `size`"""

    def placement(self, index: int, flipped: bool, size: Size | None = None, draws: Draws | None = None) -> Example:
        """`original_size`, `crop` and `target_size` of an example, for those from a cache; `draws` as of `picture`"""

    def further_captions(self, index: int) -> Mapping[str, str]:
        """`caption_2` and `caption_3` of an example, for those from a cache"""

    def caption_count(self, index: int) -> int:
        """how many captions of an example there are to draw from"""

    def settled_captions(self, index: int) -> Sequence[Caption]:
        """the captions of an example that come up word for word time and again"""

    @property
    def captions_settled(self) -> bool:
        """whether there are no captions but those"""


class PackableDataset(FullDataset, Protocol):
    """One that `python -m lun.pack` can write down."""

    def name(self, index: int) -> str:
        """the path of an example below the folder that all lie in"""

    def record(self, index: int) -> Mapping[str, Any]:
        """everything that is known of an example besides its pixels: plain JSON with `path`, `caption`, `tags`, ..."""

    def recorded(self) -> Mapping[str, bool]:
        """`lines`: a text is one caption, however many lines it has; whether any has `tags`, a mask (`masks`),
        or captions for `further` text encoders"""


class ShardedDataset(FullDataset, Protocol):
    """One whose examples lie in shards, few of which are read at a time."""

    def shard_lengths(self) -> NDArray[np.integer[Any]]:
        """(s,) how many examples lie in each shard; they follow one another"""

    @property
    def window(self) -> int | None:
        """of how many shards examples are mixed; None shuffles all together"""

    def fetch(self, indices: Sequence[int]) -> None:
        """called with the examples of a batch before they are read one by one"""

    def encoded(self, index: int) -> os.PathLike[str]:
        """the file of a picture in memory, for `open_file`"""

    def shard_identities(self) -> Sequence[bytes]:
        """(s,) a hash of what each shard holds"""


PACKABLE = ("sizes", "files", "fingerprint", "name", "record", "recorded")
"""Members of a dataset that can be packed."""

CACHED_LATENTS = ("picture", "flipped", "caption", "preparation")
"""Members that separate what of an example is pixels, which a cache keeps, from what is drawn anew."""


class DatasetAccess:
    """Any dataset with the answers of `FullDataset`, computed or empty where it does not give them itself.

    Raises `Fault` DAT08 where an answer makes no sense.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.draws_itself = self.has("example")
        self.cuts = self.draws_itself and "size" in inspect.signature(dataset.example).parameters
        self._sizes: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.dataset)

    def has(self, *members: str) -> bool:
        """Whether the dataset itself has all of these members."""
        return all(hasattr(self.dataset, name) for name in members)

    @property
    def name(self) -> str:
        """The import path of its class."""
        return f"{type(self.dataset).__module__}.{type(self.dataset).__qualname__}"

    @property
    def title(self) -> str:
        """What a person calls it: the name of its folder, else of its class."""
        root = getattr(self.dataset, "root", None)
        return root.name if isinstance(root, Path) else type(self.dataset).__qualname__

    def read(self, index: int, draws: Draws, size: Size | None = None) -> Mapping[str, Any]:
        """Example number `index` as `draws` decide, cut to `size` (width, height) where one is given."""
        cut = {} if size is None else {"size": size}
        example: Mapping[str, Any]
        example = self.dataset.example(index, draws, **cut) if self.draws_itself else self.dataset[index]
        return example

    def sizes(self) -> np.ndarray:
        """(n, 2) width and height. Raises `Fault` CFG08 if the dataset cannot serve buckets."""
        if not self.cuts or not self.has("sizes"):
            raise Fault(
                "CFG08",
                f"{self.name} cannot be read in buckets",
                where="data.params.buckets",
                why="buckets need a data set with sizes() and example(index, draws, size=None)",
                fix="data.params.buckets=null",
            )
        if self._sizes is None:
            # 0 says that a file cannot be read: it is put with the squares, and replaced when it comes up.
            self._sizes = np.maximum(self._column("sizes", (len(self), 2), 0), 1)
        return self._sizes

    def repeats(self) -> np.ndarray | None:
        """(n,) int64, or None where every example is read once."""
        if not self.has("repeats"):
            return None
        times = self._column("repeats", (len(self),), 1)
        return None if (times == 1).all() else times

    def weights(self) -> np.ndarray | None:
        """(n,) float32, or None where all count alike."""
        if not self.has("weights") or self.dataset.weights() is None:
            return None
        return self._column("weights", (len(self),), 0).astype(np.float32)

    @property
    def varied(self) -> bool:
        """Whether more of a picture than its mirroring is left to chance."""
        return bool(getattr(self.dataset, "varied", False))

    def picture(self, index: int, flipped: bool, size: Size | None, draws: Draws) -> Mapping[str, Any]:
        """What of an example its pixels decide, as `draws` say besides."""
        drawn = {"draws": draws} if self.varied else {}
        picture: Mapping[str, Any] = self.dataset.picture(index, flipped, size, **drawn)
        return picture

    def placement(self, index: int, flipped: bool, size: Size | None, draws: Draws) -> Mapping[str, Any]:
        """Where the cut of an example lies; nothing where the dataset does not give it."""
        if not self.has("placement"):
            return {}
        drawn = {"draws": draws} if self.varied else {}
        placed: Mapping[str, Any] = self.dataset.placement(index, flipped, size, **drawn)
        return placed

    def fetch(self, indices: Sequence[int]) -> None:
        """Let the dataset know which examples are read next."""
        if self.has("fetch"):
            self.dataset.fetch(indices)

    def lie(self) -> InShards | None:
        """How the examples lie in shards, where few of these are to be read at a time."""
        window = getattr(self.dataset, "window", None) if self.has("shard_lengths") else None
        if window is None:
            return None
        lengths = np.asarray(self.dataset.shard_lengths(), np.int64)
        if lengths.sum() != len(self) or window < 1:
            why = f"{lengths.sum():,} examples in shards, {len(self):,} in all, {window} shards of a window"
            raise self._senseless("shard_lengths", why, "return the lengths of all shards, and 1 or more as window")
        return InShards(lengths, int(window))

    def path(self, index: int) -> str:
        """A name for one example: its file where the dataset gives it."""
        return str(self.dataset.path(index)) if self.has("path") else f"example {index}"

    def paths(self) -> Sequence[str] | None:
        """(n,) what identifies each example among those of all datasets; None where nothing does."""
        if self.has("paths"):
            paths: Sequence[str] = self.dataset.paths()
            return paths
        if not self.has("path") or self.has("shard_identities"):
            return None
        return [_absolute(self.dataset.path(index)) for index in range(len(self))]

    def files(self, index: int) -> list[Path]:
        """The files that the pixels of an example come from; empty for one without."""
        if self.has("files"):
            return [Path(file) for file in self.dataset.files(index)]
        own = self.dataset.path(index) if self.has("path") else None
        return [own] if isinstance(own, Path) else []

    def fingerprint(self) -> str:
        """The dataset's own, else that of its class and length."""
        if self.has("fingerprint"):
            return str(self.dataset.fingerprint())
        return hashlib.sha256(f"{self.name}/{len(self)}".encode()).hexdigest()

    def tags(self) -> TagColumn | None:
        """The tags of every example; None where the dataset has none."""
        tags = self.dataset.tags() if self.has("tags") else None
        if tags is None or isinstance(tags, TagColumn):
            return tags
        column = TagColumn.of(tags)
        if len(column) != len(self):
            raise self._senseless("tags", f"tags of {len(column)} examples", f"return those of {len(self)} examples")
        return column

    def tag_counts(self) -> Counter[str]:
        """How many examples have each tag."""
        tags = self.tags()
        return Counter() if tags is None else tags.counts()

    def settled_captions(self, index: int) -> Sequence[Caption]:
        """The captions of an example that do not change from access to access; none where that is not known."""
        captions: Sequence[Caption] = self.dataset.settled_captions(index) if self.has("settled_captions") else ()
        return captions

    @property
    def captions_settled(self) -> bool:
        return bool(getattr(self.dataset, "captions_settled", False))

    def _column(self, name: str, shape: tuple[int, ...], least: int) -> np.ndarray:
        column = np.asarray(getattr(self.dataset, name)())
        if column.shape != shape or not np.isfinite(column).all() or (column < least).any():
            why = f"shape {column.shape}, least value {column.min() if column.size else 'none'}"
            raise self._senseless(name, why, f"return {shape} finite numbers of at least {least}")
        return column if name == "weights" else column.astype(np.int64)

    def _senseless(self, member: str, why: str, fix: str) -> Fault:
        return Fault("DAT08", f"{member}() of the dataset makes no sense", where=self.name, why=why, fix=fix)


def _absolute(path: Path | str) -> str:
    """Where a file lies, links in its folder followed; a str is no file and stays what it is."""
    return os.path.join(os.path.realpath(path.parent), path.name) if isinstance(path, Path) else path
