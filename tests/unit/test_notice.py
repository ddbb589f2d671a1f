"""What is shipped is what its notice describes."""

import hashlib
import re
from pathlib import Path


def test_the_first_stage_is_the_file_that_the_notice_names(repo_root: Path) -> None:
    demo = repo_root / "configs/demo"
    named = re.search(r"sha256 of `first_stage.safetensors`: ([0-9a-f]{64})", (demo / "NOTICE.md").read_text())
    assert named is not None
    assert named[1] == hashlib.sha256((demo / "first_stage.safetensors").read_bytes()).hexdigest()


def test_it_is_small_enough_to_ship(repo_root: Path) -> None:
    assert (repo_root / "configs/demo/first_stage.safetensors").stat().st_size < 2_000_000
