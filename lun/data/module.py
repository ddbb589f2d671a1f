"""The data module that YAML files name: datasets from recipes, loaders that follow the training position."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch.utils.data import Sampler

from ldm.cpus import available_cpus
from ldm.diffusion.draws import key
from ldm.errors import Fault
from ldm.lightning_classes import LightningDataModule
from ldm.position import Position
from ldm.util import Recipe
from lun.data.building import build_dataset
from lun.data.cache.cache_settings import Cache, CacheSettings
from lun.data.cache.latents.encoder import LatentEncoder
from lun.data.cache.shards.filling import Share
from lun.data.cache.text.embedder import CachedText
from lun.data.cache.text.encoder import TextEncoder
from lun.data.dataset_protocol import DatasetAccess
from lun.data.keyed import Keyed
from lun.data.loader import Loader, loader_settings
from lun.data.one_set import OneSet
from lun.data.order.bucket_table import BucketTable, assign
from lun.data.order.bucketed import BucketOrder
from lun.data.order.buckets import Buckets, BucketSettings
from lun.data.order.law import Key, Law, Order, Size
from lun.data.order.law_start import BEGINNING, LawStart
from lun.data.order.position_sampler import OnceBatchSampler, OnceByBucketSampler, PositionBatchSampler, Window
from lun.data.order.segments import Continuable
from lun.data.rejects import RejectedList
from lun.data.sets.mix import Mix
from lun.data.sets.set_settings import MixSettings, SetsRecipe, is_sets
from lun.data.sets.set_sizes import require_sizes

log = logging.getLogger(__name__)

_SPLITS = {"fit": ("train", "validation"), "validate": ("validation",), "test": ("test",), "predict": ("predict",)}


class DataModuleFromConfig(LightningDataModule):
    """Datasets built from recipes; a recipe may carry `dataloader_params` beside its `target` and `params`.

    train, validation       one recipe, or of `train` several `sets`: see `lun.data.sets.set_settings.SetRecipe`
    batch_size              examples of one micro-batch on one rank
    buckets                 read pictures at several sizes, each at the one that crops it least: see `Buckets`
    cache                   keep the first stage's moments of all pictures, and what a frozen text encoder makes of
                            their captions, on disk: true, or settings of `Cache`
    max_bad_fraction        share of the pictures that may turn out unreadable in a run; each is replaced and listed
    num_workers             loader processes a rank; by default as many as `batch_size`, at most one for each CPU
    shuffle_val_dataloader  read the validation set in a shuffled order (always the same one)
    test, predict           not read by training; `lun.inspect --split test` shows them
    """

    def __init__(
        self,
        batch_size: int,
        train: Recipe | SetsRecipe | None = None,
        validation: Recipe | None = None,
        test: Recipe | None = None,
        predict: Recipe | None = None,
        num_workers: int | None = None,
        buckets: BucketSettings | None = None,
        cache: bool | CacheSettings | None = None,
        max_bad_fraction: float = 0.01,
        shuffle_val_dataloader: bool = False,
    ) -> None:
        if batch_size < 1:
            raise Fault("CFG08", f"data.params.batch_size cannot be {batch_size}", why="it takes a number above 0")
        if num_workers is not None and num_workers < 0:
            raise Fault("CFG08", f"data.params.num_workers cannot be {num_workers}", why="it takes 0 or more")
        if not 0 <= max_bad_fraction <= 1:
            raise Fault("CFG08", f"data.params.max_bad_fraction cannot be {max_bad_fraction}", why="it takes 0 to 1")
        splits = {"train": train, "validation": validation, "test": test, "predict": predict}
        self.recipes: dict[str, Recipe] = {split: recipe for split, recipe in splits.items() if recipe is not None}
        _refuse_repeats(self.recipes)
        self.buckets = None if buckets is None else Buckets.read(buckets)
        self.mix_settings = MixSettings.read(train) if train is not None and is_sets(train) else None
        if self.mix_settings:
            require_sizes(self.mix_settings.sets, self.buckets)
        self.batch_size = batch_size
        self.cache = Cache.read(cache)
        at_most = 0 if self.cache else min(batch_size, available_cpus())  # moments take longer to send than to read
        self.num_workers = at_most if num_workers is None else num_workers
        if shuffle_val_dataloader and buckets is not None:
            where, why = "data.params.shuffle_val_dataloader", "with buckets each one's pictures are shuffled already"
            raise Fault("CFG08", f"{where} has no effect beside buckets", where=where, why=why, fix="delete the line")
        self.shuffled = {"validation": shuffle_val_dataloader}
        self.max_bad_fraction = max_bad_fraction
        self.datasets: dict[str, Any] = {}
        self._tables: dict[str, BucketTable] = {}
        self._training: OneSet | Mix | None = None
        self._start = BEGINNING
        self._cached: dict[str, Any] = {}
        self.position: Position | None = None
        self.window = Window(batch_size)
        self.seed = 0
        self.total_steps = 0

    def follow(self, position: Position, window: Window, seed: int, total_steps: int) -> None:
        """Tie the loaders to the run: where it stands, who reads what, its seed, and its length in optimizer steps."""
        if window.batch_size != self.batch_size:
            raise ValueError(f"the window has batch size {window.batch_size}, the data module {self.batch_size}")
        self.position = position
        self.window = window
        self.seed = seed
        self.total_steps = total_steps
        self._law = self.law()

    def go_on(self, stored: Mapping[str, Any], changed: bool) -> bool:
        """Let several sets go on from the stored `state_dict_of_data()`, as it was or changed; False for one set."""
        if "reached" not in stored or not isinstance(self.training, Mix):
            return False
        self._start = self.training.start_after(stored) if changed else LawStart.of(stored["start"])
        self._law = self.law()
        return True

    def all_recipes(self) -> list[Recipe]:
        """The recipe of every dataset, those of several sets one by one."""
        sets = [one.recipe for one in self.mix_settings.sets] if self.mix_settings else []
        return sets + [recipe for recipe in self.recipes.values() if not is_sets(recipe)]

    def has(self, split: str) -> bool:
        """Whether there is a dataset for `split`: train, validation, test or predict."""
        return split in self.recipes

    def dataset(self, split: str) -> Any:
        """The dataset of `split`, built at the first call. Raises the `Fault` of its builder."""
        if split not in self.datasets:
            if not self.has(split):
                raise Fault(
                    "CFG08",
                    f"the config has no data set for {split}",
                    where=f"data.params.{split}",
                    fix=f"data.params.{split}: {{target: lun.data.local.Local, params: {{data_root: DIR}}}}",
                )
            self.datasets[split] = build_dataset(self.recipes[split], split)
        return self.datasets[split]

    def setup(self, stage: str | None = None) -> None:
        """Build the datasets of `stage` (all without one), each once however often this is called."""
        for split in _SPLITS.get(stage or "", tuple(self.recipes)):
            if self.has(split):
                self.dataset(split)

    @property
    def training(self) -> OneSet | Mix:
        """What is trained on, and in which order."""
        if self._training is None:
            dataset = self.dataset("train")
            mixed = self.mix_settings and Mix(self.mix_settings, dataset, self.buckets)
            self._training = mixed or OneSet(dataset, self.buckets)
        return self._training

    @property
    def n(self) -> int:
        """Examples in one epoch of training, repeats and resolutions counted."""
        return self.training.n

    def table(self, split: str) -> BucketTable:
        """Which example of `split` goes into which bucket."""
        assert self.buckets is not None
        if split == "train":
            return self.training.table()
        if split not in self._tables:
            self._tables[split] = assign(DatasetAccess(self.dataset(split)).sizes(), None, self.buckets)
        return self._tables[split]

    def law(self) -> Law:
        """The order of the training set."""
        return self.training.law(self.seed, self.global_batch, self._start)

    def describe(self) -> None:
        """Say once how the training set is cut, where that is not plain, and which sets nothing reads."""
        for split in ("test", "predict"):
            if self.has(split):
                log.info("note: data.params.%s is not read: a run trains and validates", split)
        for line in self.training.lines():
            log.info("%-8s %s", "set", line)
        if self.buckets is not None:
            for line in self.table("train").lines(self.global_batch, DatasetAccess(self.dataset("train")).path):
                log.info("%-8s %s", "buckets" if not line.startswith(" ") else "", line)

    def cache_moments(self, encoder: LatentEncoder, share: Share) -> None:
        """Fill the cache with what training and validation need; from then on loaders read moments from it."""
        assert self.cache is not None
        self.cache.require_effect(self.dataset("train"))

        def cached(dataset: Any, read_at: Mapping[Size | None, np.ndarray]) -> Any:
            assert self.cache is not None
            return self.cache.moments_of(dataset, read_at, encoder, available_cpus(), share)

        for split in _SPLITS["fit"]:
            if self.has(split) and split not in self._cached:
                one = self.training if split == "train" else OneSet(self.dataset(split), self.buckets)
                self._cached[split] = one.cached(cached)

    def cache_text(self, encoder: TextEncoder, share: Share) -> CachedText:
        """Fill the cache with the captions of training and validation; returns what answers in the encoder's place."""
        assert self.cache is not None
        return self.cache.text_of(self._fitted(), encoder, share)

    @property
    def captions_settled(self) -> bool:
        """Whether no access gives a caption that `cache_text` did not see."""
        return all(DatasetAccess(dataset).captions_settled for dataset in self._fitted())

    def _fitted(self) -> list[Any]:
        return [self.dataset(split) for split in _SPLITS["fit"] if self.has(split)]

    def start_of(self, epoch: int) -> int:
        """The place, in examples consumed, at which `epoch` begins."""
        return self.law().start_of(epoch)

    @property
    def global_batch(self) -> int:
        """Examples of one optimizer step over all ranks and micro-batches."""
        return self.window.global_batch

    @property
    def epoch(self) -> int:
        """How often the training set was read in full."""
        return self._law.epoch(self.position.slot) if self.position else 0

    def files(self, micro: int | None = None, slot: int | None = None) -> list[str]:
        """The pictures that this rank reads in a step: those of one micro-batch, or all.

        slot  where the step begins, by default that at work
        """
        assert self.position is not None
        slot = self.position.slot if slot is None else slot
        start, access = self._law.beginning(slot), DatasetAccess(self.dataset("train"))
        micros = range(self.window.accumulate) if micro is None else [micro]
        places = (place for number in micros for place in self.window.places(start, number))
        return [access.path(self._law.key(place).example) for place in places]

    def fingerprint(self) -> str:
        """What identifies the training set."""
        return self.training.fingerprint()

    def state_dict_of_data(self) -> dict[str, Any]:
        """What a resumed run compares with its own: a slot means the same example only while these stay equal.

        Of several sets also what goes on when one of them changes.
        """
        state = {"n": self.n, "global_batch": self.global_batch, "fingerprint": self.fingerprint(), "seed": self.seed}
        if not isinstance(self.training, Mix):
            return state
        return {**state, **self.training.state_dict(self._reached(), self._start)}

    def laps(self) -> dict[str, float]:
        """How often each of several sets was read in full, by name; a real number."""
        return self.training.laps(self._reached()) if isinstance(self.training, Mix) else {}

    def _reached(self) -> LawStart:
        """What was read of several sets before the position."""
        position = self.position or Position()
        law = cast(Continuable, self._law)
        return law.reached(max(position.slot, self._start.slot), max(position.step, self._start.step))

    def train_dataloader(self) -> Loader:
        """Batches of this rank without end, from the position on. Needs `follow` first."""
        if self.position is None:
            raise RuntimeError("the data module does not know the position: call follow() before training")
        if self.n < self.global_batch:
            log.info(
                "%d images are fewer than the %d of one step, so that a step holds some of them more than once",
                self.n,
                self.global_batch,
            )
        batches = PositionBatchSampler(self._law, self.window, self.position, self.total_steps * self.window.accumulate)
        return self._loader("train", self.seed, batches, self._law)

    def val_dataloader(self) -> Loader | list[Any]:
        return self._once("validation")

    def test_dataloader(self) -> Loader | list[Any]:
        return self._once("test")

    def predict_dataloader(self) -> Loader | list[Any]:
        return self._once("predict")

    def _once(self, split: str) -> Loader | list[Any]:
        """Every example of `split` once over the ranks, with draws apart from training's; no loader without a set."""
        if not self.has(split):
            return []
        seed = key(self.seed, split)
        if self.buckets is not None:
            by_bucket = BucketOrder(self.table(split), seed, self.global_batch)
            return self._loader(split, seed, OnceByBucketSampler(by_bucket, self.window), by_bucket)
        order = Order(len(self.dataset(split)), seed, shuffle=self.shuffled.get(split, False))
        return self._loader(split, seed, OnceBatchSampler(order, self.window), order)

    def _loader(self, split: str, seed: int, batches: Sampler[list[Key]], law: Law) -> Loader:
        if self.cache is not None and split in _SPLITS["fit"] and split not in self._cached:
            raise RuntimeError("the cache was not filled: call cache_moments() before asking for loaders")
        dataset = self._cached.get(split) or self.dataset(split)
        rejected = RejectedList(len(dataset), self.max_bad_fraction, self._folder, split)
        return Loader(Keyed(dataset, seed), batches, law.another, rejected.add, **self._settings(split))

    def _folder(self) -> Path | None:
        """Where a run keeps what it learns about its data."""
        return Path(self.trainer.default_root_dir) / "data" if self.trainer is not None else None

    def _settings(self, split: str) -> dict[str, Any]:
        given = self.recipes[split].get("dataloader_params") or {}
        return {"num_workers": self.num_workers} | loader_settings(given, f"data.params.{split}.dataloader_params")


def _refuse_repeats(recipes: Mapping[str, Recipe]) -> None:
    """Raise `Fault` CFG08 for repeats beyond training; those of folders and descriptions count there alone as well."""
    for split, recipe in recipes.items():
        if split != "train" and (recipe.get("params") or {}).get("repeats", 1) != 1:
            where = f"data.params.{split}.params.repeats"
            why = "it reads each picture once, so that its losses stay means over the pictures"
            raise Fault("CFG08", f"{where} has no effect", where=where, why=why, fix="delete the line")
