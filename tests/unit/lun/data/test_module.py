"""The data module: datasets once, loaders that follow the position, validation apart from training."""

import sys
import types
from itertools import islice
from pathlib import Path

import pytest
import torch
from lightning.pytorch.trainer.states import TrainerFn
from PIL import Image
from support.pictures import Painted

from ldm.admission import grant
from ldm.errors import Fault
from ldm.position import Position
from ldm.util import built_by_owner
from lun.data.module import DataModuleFromConfig
from lun.data.order.position_sampler import Window

TWO = Window(2)
DEMO = Path(__file__).parents[4] / "configs/demo/data"


class Numbers:
    """Pictures that show their own number."""

    built = 0

    def __init__(self, n: int) -> None:
        type(self).built += 1
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> dict:
        return {"image": torch.full((1, 1, 3), index / 100), "caption": str(index)}


class Drawn(Numbers):
    def example(self, index, draws):
        return {"image": torch.rand(1, 1, 3, generator=draws("flip")), "caption": str(index)}

    def fingerprint(self) -> str:
        return "abc"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Recipes name classes of this file; importlib mode gives it no import path of its own."""
    module = types.ModuleType("numbers_of_this_test")
    module.Numbers, module.Drawn = Numbers, Drawn
    monkeypatch.setitem(sys.modules, module.__name__, module)
    grant((__name__, module.__name__, "support", "pictures_of_this_test", "fractions"))


def recipe(n: int, name: str = "Numbers", **more: object) -> dict:
    return {"target": f"numbers_of_this_test.{name}", "params": {"n": n}, **more}


def data(**params: object) -> DataModuleFromConfig:
    return DataModuleFromConfig(**{"batch_size": 2, "num_workers": 0, "train": recipe(5)} | params)


def slots(loader, batches: int) -> list[list[int]]:
    return [batch["slot"].tolist() for batch in islice(loader, batches)]


def test_datasets_are_built_once():
    Numbers.built = 0
    module = data(validation=recipe(3), test=recipe(2))
    for stage in ("fit", TrainerFn.FITTING, "validate", "fit"):
        module.setup(stage)
    assert sorted(module.datasets) == ["train", "validation"]
    module.setup()
    assert Numbers.built == 3


def test_recipes_are_built_by_the_module_itself():
    assert all(built_by_owner(DataModuleFromConfig, name) for name in ("train", "validation", "test", "predict"))


def test_training_follows_the_position():
    module = data()
    position = Position(step=3, slot=12)
    module.follow(position, Window(2, accumulate=2), seed=0, total_steps=10)
    loader = module.train_dataloader()
    assert slots(loader, 3) == [[12, 13], [14, 15], [16, 17]]
    position.advance(4)
    assert slots(loader, 1) == [[16, 17]]
    assert len(loader) == 20


def test_the_files_of_the_step_at_work_are_named():
    module = data(train={"target": "lun.data.local.Local", "params": {"data_root": str(DEMO / "train"), "size": 32}})
    module.follow(Position(step=3, slot=24), Window(2, accumulate=2, world_size=2, rank=1), seed=0, total_steps=10)
    batches = [next(loader) for loader in [iter(module.train_dataloader())] for _ in range(2)]
    named = [module.files(0), module.files(1)]
    assert module.files() == named[0] + named[1]
    for batch, files in zip(batches, named, strict=True):
        for caption, file in zip(batch["caption"], files, strict=True):
            assert Path(file).is_file()
            assert (Path(file).parents[1] / "txt" / Path(file).with_suffix(".txt").name).read_text().strip() == caption


def test_what_a_resume_compares():
    module = data(train=recipe(5, "Drawn"))
    module.follow(Position(slot=12), Window(2, accumulate=3, world_size=2, rank=1), seed=7, total_steps=10)
    assert module.state_dict_of_data() == {"n": 5, "global_batch": 12, "fingerprint": "abc", "seed": 7}
    assert module.epoch == 2


def test_a_dataset_without_fingerprint_is_known_by_class_and_length():
    five, again, six = data(), data(), data(train=recipe(6))
    assert five.fingerprint() == again.fingerprint() != six.fingerprint()


def test_validation_reads_all_of_its_examples_in_order_with_a_short_last_batch():
    assert slots(data(validation=recipe(5)).val_dataloader(), 9) == [[0, 1], [2, 3], [4]]


def test_a_shuffled_validation_has_the_same_examples_with_the_same_draws():
    plain = data(validation=recipe(20, "Drawn"))
    shuffled = data(validation=recipe(20, "Drawn"), shuffle_val_dataloader=True)
    rows = [
        {
            slot: image
            for batch in module.val_dataloader()
            for slot, image in zip(batch["slot"].tolist(), batch["image"], strict=True)
        }
        for module in (plain, shuffled)
    ]
    assert list(rows[0]) != list(rows[1])
    assert all(torch.equal(rows[0][index], rows[1][index]) for index in range(20))


def test_validation_draws_differ_from_those_of_training():
    module = data(train=recipe(2, "Drawn"), validation=recipe(2, "Drawn"))
    module.follow(Position(), Window(2), seed=0, total_steps=1)
    train, validation = (next(iter(loader))["image"] for loader in (module.train_dataloader(), module.val_dataloader()))
    assert not torch.equal(train, validation)


def test_without_a_validation_set_there_is_no_loader():
    module = data()
    assert (module.val_dataloader(), module.test_dataloader(), module.predict_dataloader()) == ([], [], [])
    assert not module.has("validation")


def test_loader_parameters_of_a_data_set_count():
    module = data(validation=recipe(5, dataloader_params={"num_workers": 1, "drop_last": True}))
    assert module.val_dataloader().num_workers == 1


def test_workers_are_as_many_as_the_batch_size_but_not_more_than_cpus(monkeypatch):
    monkeypatch.setattr("lun.data.module.available_cpus", lambda: 3)
    assert [data(batch_size=size, num_workers=None).num_workers for size in (2, 8)] == [2, 3]


def test_a_window_of_another_batch_size_is_refused():
    with pytest.raises(ValueError, match="batch size 3"):
        data().follow(Position(), Window(3), seed=0, total_steps=1)


def test_training_before_the_position_is_known_is_refused():
    with pytest.raises(RuntimeError, match="follow"):
        data().train_dataloader()


def test_an_empty_dataset_is_nothing_to_train_on():
    with pytest.raises(Fault, match="DAT02"):
        data(train=recipe(0)).setup("fit")


def test_what_is_no_dataset_is_refused():
    with pytest.raises(Fault, match="is no data set"):
        data(train={"target": "fractions.Fraction"}).setup("fit")


def test_the_fix_names_the_split_that_is_meant(tmp_path):
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    local = {"target": "lun.data.local.Local", "params": {"data_root": str(tmp_path)}}
    with pytest.raises(Fault) as caught:
        data(validation=local).setup("validate")
    assert "data.params.validation.params.default_caption" in caught.value.fix


def test_the_demo_pictures_are_read():
    local = {"target": "lun.data.local.Local", "params": {"data_root": str(DEMO / "train"), "size": 32}}
    module = data(batch_size=4, train=local)
    module.follow(Position(), Window(4), seed=0, total_steps=1)
    batch = next(iter(module.train_dataloader()))
    assert module.n == 168
    assert batch["image"].shape == (4, 32, 32, 3)
    assert all("background" in caption for caption in batch["caption"])


@pytest.fixture
def painted(monkeypatch):
    """A data module over pictures in memory."""
    module = types.ModuleType("pictures_of_this_test")
    module.Painted = Painted
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def make(sizes: list, *, follow: Window = TWO, more: dict | None = None, **params: object) -> DataModuleFromConfig:
        given = {"sizes": sizes} | (more or {})
        made = data(train={"target": "pictures_of_this_test.Painted", "params": given}, **params)
        made.follow(Position(), follow, seed=0, total_steps=10)
        return made

    return make


def test_repeated_examples_fill_an_epoch(painted):
    module = painted([(8, 8)] * 3, more={"repeats": [3, 1, 2]})
    assert module.n == 6
    captions = [caption for batch in islice(module.train_dataloader(), 3) for caption in batch["caption"]]
    assert sorted(captions) == ["picture 0"] * 3 + ["picture 1"] + ["picture 2"] * 2


def test_weights_are_a_column_of_the_batch(painted):
    module = painted([(8, 8)] * 2, more={"weights": [0.5, 0.5]})
    assert next(iter(module.train_dataloader()))["weight"].tolist() == [0.5, 0.5]


def test_buckets_give_batches_of_one_size_with_what_sdxl_is_told(painted):
    module = painted([(64, 64)] * 4 + [(128, 64)] * 4, buckets={"resolutions": [64], "step": 16})
    shapes = {tuple(batch["image"].shape[1:3]) for batch in islice(module.train_dataloader(), 4)}
    assert shapes == {(64, 64), (48, 80)}
    batch = next(iter(module.train_dataloader()))
    assert batch["target_size"].tolist() == [list(batch["image"].shape[1:3])] * 2
    assert {"original_size", "crop"} <= batch.keys()


def test_a_position_in_buckets_begins_where_it_stopped(painted):
    sizes, buckets = [(64, 64)] * 5 + [(128, 64)] * 4, {"resolutions": [64], "step": 16}
    straight = slots(painted(sizes, buckets=buckets).train_dataloader(), 9)
    late = painted(sizes, buckets=buckets)
    late.follow(Position(step=4, slot=8), TWO, seed=0, total_steps=10)
    assert slots(late.train_dataloader(), 5) == straight[4:]


def test_buckets_are_part_of_what_a_resume_compares(painted):
    one, two = (painted([(64, 64)] * 4, buckets={"resolutions": [side], "step": 16}) for side in (64, 96))
    assert one.fingerprint() != two.fingerprint() != painted([(64, 64)] * 4).fingerprint()


def test_an_epoch_of_buckets_begins_with_a_whole_batch(painted):
    module = painted([(64, 64)] * 3, buckets={"resolutions": [64]})
    assert [module.start_of(epoch) for epoch in range(4)] == [0, 2, 6, 8]
    module.position.slot = 6
    assert module.epoch == 2


def test_a_cache_that_was_not_filled_gives_no_loader(painted):
    with pytest.raises(RuntimeError, match="cache_moments"):
        painted([(8, 8)] * 2, cache=True).train_dataloader()


def test_cached_moments_are_read_without_workers_unless_asked_for():
    assert data(batch_size=8, num_workers=None, cache=True).num_workers == 0
    assert data(batch_size=8, num_workers=2, cache=True).num_workers == 2


def test_a_share_of_bad_pictures_is_a_share():
    with pytest.raises(Fault, match="max_bad_fraction"):
        data(max_bad_fraction=5)


def test_repeats_of_a_set_that_is_read_once_are_refused_by_name():
    again = {"target": recipe(2)["target"], "params": {"repeats": 3}}
    with pytest.raises(Fault) as caught:
        data(validation=again)
    assert caught.value.what == "data.params.validation.params.repeats has no effect"
