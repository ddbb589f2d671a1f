"""The one group of two ranks, and the tiny program on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ranks import Ranks
from support.runs import make_pictures


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """`ranks(case, *arguments) -> [result of rank 0, result of rank 1]`."""
    group = Ranks(tmp_path_factory.mktemp("ranks"))
    yield group
    group.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven pictures: a number that neither ranks nor batches divide."""
    return make_pictures(tmp_path_factory.mktemp("pictures"), 11)
