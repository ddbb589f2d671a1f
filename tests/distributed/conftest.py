"""The one group of two ranks, and the tiny program on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ranks import Ranks
from support.runs import make_pictures
from support.together import GROUPS, ONE, SAME, STEP_NUMBERS, STILL, busy, tiny, train


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    """The ranks compute with one thread each, and so does the process that they are compared with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LUN_THREADS", "1")
        yield


@pytest.fixture(scope="package")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """`ranks(case, *arguments) -> [result of rank 0, result of rank 1]`."""
    group = Ranks(tmp_path_factory.mktemp("ranks"), LUN_CACHE=str(tmp_path_factory.mktemp("cache")))
    group.start()
    yield group
    group.close()


@pytest.fixture(scope="package")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven pictures: a number that neither ranks nor batches divide."""
    return make_pictures(tmp_path_factory.mktemp("pictures"), 11)


@pytest.fixture(scope="package")
def plain(ranks: Ranks, pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Four steps of four pictures in one process by plain descent, with everything on that a run has beside its steps:
    the folder with `one` and with `start`, the weights before them; and the words that say so."""
    folder = tmp_path_factory.mktemp("plain")
    # Of five pictures one rank validates two batches and the other one.
    words = tiny(pictures, *SAME, *GROUPS, *busy(make_pictures(folder / "validation", 5, seed=1)))
    assert train(folder / "one", [*words, *STEP_NUMBERS, *ONE]) == 0
    assert train(folder / "start", [*tiny(pictures, *SAME, *GROUPS), *ONE, *STILL]) == 0
    return folder, words


@pytest.fixture(scope="package")
def uncached(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder with `one` and `start`, in one process, of a model whose text encoder is frozen; and the words."""
    folder = tmp_path_factory.mktemp("uncached")
    words = [*tiny(pictures, *SAME), "model.params.cond_stage_trainable=false"]
    assert train(folder / "one", [*words, *ONE]) == 0
    assert train(folder / "start", [*words, *ONE, *STILL]) == 0
    return folder, words
