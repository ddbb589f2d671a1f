"""A packed set: what `python -m lun.pack` wrote, or tar files of WebDataset that it wrote an index for."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.admission import configurable
from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from ldm.modules.encoders.captions import Caption, for_each
from lun.data.example import FURTHER_CAPTIONS, Example
from lun.data.images.preparation import require
from lun.data.images.prepared_pictures import PreparedPictures
from lun.data.index.dir_handle import FileInMemory
from lun.data.index.missing_data import no_further_captions
from lun.data.metadata.made_captions import LOOKED_AT
from lun.data.order.law import Size
from lun.data.packs.mixing import ShardMixing, mixing_of
from lun.data.packs.packed_captions import PackedCaptionParams, PackedCaptions, caption_rules
from lun.data.packs.set_file import SET_FILE
from lun.data.packs.shard_samples import Samples, StoredSample
from lun.data.packs.storage_choice import storage_of
from lun.data.weigher import Weigher

WINDOW = 16


@configurable
class PackedSet(PreparedPictures):
    """The pictures and captions of the packed set at `data_root`.

    data_root             the folder or URL (http, https, s3, gs, az) that holds `set.json`
    window                of how many shards pictures are mixed: an epoch reads the shards in a shuffled order, so many
                          at a time; None shuffles all pictures together, as those of a folder
    cache_dir, cache_gb   of a set behind a URL, keep whole shards in this folder, in all so many GB (10^9 bytes)
    captions, default_caption, allow_empty_captions, caption_per_encoder  as of `lun.data.local.Local`;
                          which pictures there are was decided when they were packed
    pictures              what becomes of the pixels: settings of `lun.data.images.preparation.Preparation`
    """

    def __init__(
        self,
        data_root: str,
        captions: PackedCaptionParams | None = None,
        default_caption: str | None = None,
        allow_empty_captions: bool = False,
        window: int | None = WINDOW,
        cache_dir: str | None = None,
        cache_gb: float | None = None,
        caption_per_encoder: bool = False,
        **pictures: Any,
    ) -> None:
        super().__init__(**pictures)
        _require_window(window)
        self.window = window
        self.rules = caption_rules(captions)
        self.samples = Samples(storage_of(data_root, cache_dir, cache_gb))
        self.remote = "://" in data_root
        facts = self.samples.table.facts
        if self.prepared.mask == "folder" and not facts.masks:
            why = "every picture would count everywhere, as without masks"
            fix = "pack the folder again, with mask: folder in the params of its recipe; or without mask"
            raise Fault("CFG08", f"mask: folder was asked for, and {data_root} has no masks", why=why, fix=fix)
        absent = default_caption if default_caption is not None else "" if allow_empty_captions else None
        self.captions = PackedCaptions(facts, self.rules, absent)
        self.compose = self.captions.maker.compose
        if self.compose.warmup_steps:
            some = range(0, len(self), -(-len(self) // LOOKED_AT) or 1)
            written = (self.captions.written(self.samples[index].record, data_root) for index in some)
            self.captions.maker.require_tags(written, data_root)
        self.caption_per_encoder = caption_per_encoder
        if caption_per_encoder and facts.further is False:
            raise no_further_captions(data_root)

    @classmethod
    def require_settings(cls, params: Mapping[str, Any]) -> None:
        """Raise the `Fault` of params that no set could mend."""
        cls.require_preparation(params)
        _require_window(params.get("window"))
        caption_rules(params.get("captions"))

    def __len__(self) -> int:
        return len(self.samples)

    def fetch(self, indices: Sequence[int]) -> None:
        """Have the samples of a batch read at once, where the network makes each wait."""
        if self.remote:
            self.samples.fetch(indices)

    def example(self, index: int, draws: Draws, size: Size | None = None) -> Example:
        """As of `lun.data.local.Local`. Raises besides `Fault` DAT13 and DAT14 for shards that cannot be trusted."""
        sample = self.samples[index]
        flipped = self.flipped(draws)
        pixels = self.prepared.picture(sample.picture, sample.mask, flipped, size, draws)
        texts = {"caption": self.captions.made(sample.record, draws, sample.picture.name), **self._further(sample)}
        return {**pixels, **self.placement(index, flipped, size, draws), **texts}  # type: ignore[typeddict-item]  # text

    def picture(self, index: int, flipped: bool, size: Size | None = None, draws: Draws | None = None) -> Example:
        """As of `lun.data.local.Local`."""
        sample = self.samples[index]
        pixels = self.prepared.picture(sample.picture, sample.mask, flipped, size, draws)
        return {**pixels, **self.placement(index, flipped, size, draws)}

    def placement(self, index: int, flipped: bool, size: Size | None = None, draws: Draws | None = None) -> Example:
        """Sizes in (height, width) pixels, the crop's (top, left) in those of the resized picture, mirrored or not."""
        return self.prepared.placement(self.samples.size(index), flipped, size, draws)

    def caption(self, index: int, draws: Draws | None = None) -> str:
        """The caption of example `index`, made anew; without `draws` nothing is left to chance."""
        sample = self.samples[index]
        return self.captions.made(sample.record, draws, sample.picture.name)

    def further_captions(self, index: int) -> dict[str, str]:
        """As of `lun.data.local.Local`; nothing is read where every text encoder gets the same."""
        return self._further(self.samples[index]) if self.caption_per_encoder else {}

    def _further(self, sample: StoredSample) -> dict[str, str]:
        return self.captions.further(sample.record) if self.caption_per_encoder else {}

    def caption_count(self, index: int) -> int:
        """How many captions example `index` has, one of which is drawn at each access."""
        sample = self.samples[index]
        return self.captions.maker.count(self.captions.written(sample.record, sample.picture.name))

    @property
    def captions_settled(self) -> bool:
        """Whether every access to an example gives one of its `settled_captions`."""
        return not self.compose.draws

    def settled_captions(self, index: int) -> list[Caption]:
        """The captions of example `index` that do not change from access to access."""
        sample = self.samples[index]
        further = [self._further(sample).get(key) for key in FURTHER_CAPTIONS]
        return [for_each(one, further) for one in self.captions.settled(sample.record, sample.picture.name)]

    def encoded(self, index: int) -> FileInMemory:
        """The file of a picture, as it was packed."""
        return self.samples[index].picture

    def path(self, index: int) -> str:
        """The shard and the row of an example: `DIR/000003.tar#17`."""
        shard, row = self.samples.table.place(index)
        return f"{self.samples.storage.path(self.samples.table.name(shard))}#{row}"

    def sizes(self) -> NDArray[np.int32]:
        """(n, 2) width and height of each picture, upright; 0 where it could not be read."""
        return self.samples.sizes

    def weigher(self) -> Weigher | None:
        """How much a picture counts in the loss, by the index of its shard; None where all count 1."""
        return self.samples.weight if self.samples.table.facts.weighted else None

    def shard_lengths(self) -> NDArray[np.int64]:
        """(shards,) how many examples each holds, one shard after the other."""
        return self.samples.table.lengths

    def shard_identities(self) -> list[bytes]:
        """(shards,) a hash of what each holds."""
        return [one.tobytes() for one in self.samples.table.shards["sha256"]]

    def mixing(self) -> ShardMixing:
        """How well the shards are mixed, for `lun.inspect`; reads up to 64 indexes and 3,200 samples."""
        return mixing_of(self.samples)

    def fingerprint(self) -> str:
        """sha256 of `set.json`, which has the hashes of all shards: their content and order, at once."""
        return self.samples.table.fingerprint


def _require_window(window: int | None) -> None:
    require(window is None or window > 0, "window", window, f"a number of shards above 0, or null ({SET_FILE})")
