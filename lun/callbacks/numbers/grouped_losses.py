"""The loss by noise level, by size of the picture and by tag, in training and validation."""

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.diffusion.number_limits import POSITIVE, require_limits
from ldm.errors import Fault
from ldm.lightning_classes import LightningModule, Trainer
from ldm.models.example_losses import Column, Rows
from lun.callbacks.numbers.example_numbers import ExampleNumbers
from lun.callbacks.numbers.group_means import ENOUGH, GroupMeans
from lun.data.tag_counts import tag_frequency
from lun.loop.contract import data_of

log = logging.getLogger(__name__)

Groups = Mapping[str, NDArray[np.bool_]]
TAG = "tag "
MOST_BINS = 1000


class GroupedLosses(ExampleNumbers):
    """What these have in common: `PHASE/NAME/GROUP` is the mean of the unweighted loss (`loss_simple`) over a group's
    examples since the last log, of all ranks, and `PHASE/NAME_rel/GROUP` its quotient to the group's first
    examples: 32 or more in training, the first validation there.

    PHASE is `train` or `val`; averaged weights have `val/NAME_ema/GROUP`.
    """

    name = ""

    def __init__(self) -> None:
        self.means = GroupMeans()

    def groups(self, rows: Rows) -> Groups:
        """Which of the rows are of each group: (m,) by name."""
        raise NotImplementedError

    def measure(self, phase: str, rows: Rows, step: int) -> Mapping[str, float]:
        enough = ENOUGH if phase == "train" else 1  # validation has the same examples and noise each time
        return self.means.of(f"{phase}/{self.name}", self.groups(rows), rows["loss"], enough)

    def state_dict(self) -> dict[str, Any]:
        return self.means.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.means.load_state_dict(state_dict)


class LossByNoiseLevel(GroupedLosses):
    """Logs `train/loss_by_snr/LOW..HIGH` and `val/...`: the loss in equal bins of ln(alpha^2 / sigma^2) on any path.

    The batch loss says more of the noise levels that were drawn than of the network; within a bin it can be compared
    from step to step. Bins below 0 are mostly noise, those above mostly picture.

    width  of a bin
    reach  bins cover -reach to reach; what lies beyond is logged as `..LOW` and `HIGH..`

    Raises `Fault` CFG03 for numbers that are not positive, and for more than `MOST_BINS`.
    """

    name = "loss_by_snr"
    limits = {"width": POSITIVE, "reach": POSITIVE}

    def __init__(self, width: float = 2.0, reach: float = 6.0) -> None:
        super().__init__()
        require_limits("LossByNoiseLevel", self.limits, {"width": width, "reach": reach})
        if (bins := 2 * reach / width) > MOST_BINS:
            why = f"there would be {bins:g} bins, and there can be {MOST_BINS}"
            raise Fault("CFG03", f"reach of LossByNoiseLevel cannot be {reach:g} with a width of {width:g}", why=why)
        self.edges = np.linspace(-reach, reach, max(2, round(bins) + 1))

    def groups(self, rows: Rows) -> Groups:
        ends = ["", *(f"{edge:g}" for edge in self.edges), ""]
        which = np.digitize(rows["log_snr"], self.edges)
        return {f"{low}..{high}": which == place for place, (low, high) in enumerate(pairwise(ends))}


class LossBySize(GroupedLosses):
    """Logs `train/loss_by_size/WIDTHxHEIGHT` and `val/...`: the loss of the pictures that are read at each size."""

    name = "loss_by_size"

    def groups(self, rows: Rows) -> Groups:
        width, height = rows["width"], rows["height"]
        sizes = sorted({*zip(width.astype(int), height.astype(int), strict=True)})
        return {f"{w}x{h}": (width == w) & (height == h) for w, h in sizes}


class LossByTag(GroupedLosses):
    """Logs `train/loss_by_tag/TAG` and `val/...`: the loss of the examples whose captions have a tag or any such words.

    The captions are those that the network is given, with what was shuffled, dropped and replaced in them.

    tags  words to look for, or how many of the training set's most frequent tags

    Raises `Fault` CFG03 where there is none.
    """

    name = "loss_by_tag"

    def __init__(self, tags: Sequence[str] | int = 16) -> None:
        super().__init__()
        if not tags or (isinstance(tags, int) and tags < 0) or not all(tags if isinstance(tags, Sequence) else [True]):
            raise Fault("CFG03", f"there are no tags in {tags!r}", where="tags", fix="tags: [solo, smile], or a number")
        self.tags = tags

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        chosen = most_frequent(trainer, self.tags) if isinstance(self.tags, int) else list(self.tags)
        self._patterns = {tag: _pattern(tag) for tag in chosen}
        super().setup(trainer, pl_module, stage)

    def columns(self) -> Mapping[str, Column]:
        return {TAG + tag: _occurs(pattern) for tag, pattern in self._patterns.items()}

    def groups(self, rows: Rows) -> Groups:
        return {tag: rows[TAG + tag] > 0 for tag in self._patterns}


def most_frequent(trainer: Trainer, count: int) -> list[str]:
    """The `count` tags that most pictures of the training set have; a warning where no tags are known."""
    frequency = tag_frequency(data_of(trainer).dataset("train"))
    counts = sum((Counter(tags) for tags in frequency.values()), Counter[str]())
    if not counts:
        log.warning("the training set has no tags: LossByTag needs to be given some, as its setting `tags`")
    return [tag for tag, _ in counts.most_common(count)]


def _pattern(tag: str) -> re.Pattern[str]:
    """A tag as it may stand in a caption: whole words, with `_` or spaces between them."""
    words = r"[\s_]+".join(map(re.escape, re.split(r"[\s_]+", tag.strip())))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def _occurs(pattern: re.Pattern[str]) -> Column:
    return lambda batch: [float(bool(pattern.search(str(caption)))) for caption in batch["caption"]]
