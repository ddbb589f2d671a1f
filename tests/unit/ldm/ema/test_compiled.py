"""The compiled kernel: made once, found again, and never missed."""

import logging
import subprocess
from pathlib import Path

import pytest

from ldm.ema import compiled

needs_compiler = pytest.mark.skipif(compiled.kernel() is None, reason="no C compiler here")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a kernel that was not asked for yet."""
    monkeypatch.setenv("LUN_CACHE", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    compiled.kernel.cache_clear()
    yield tmp_path
    compiled.kernel.cache_clear()


@needs_compiler
def test_it_is_compiled_once_and_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled.kernel() is not None
    (made,) = (cache / "compiled").iterdir()
    compiled.kernel.cache_clear()
    monkeypatch.setattr(compiled.subprocess, "run", lambda *words, **options: pytest.fail("compiled again"))
    assert compiled.kernel() is not None and made.exists()


def poisoned(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another program where the kernel is kept."""
    compiled.kernel()
    (made,) = (cache / "compiled").iterdir()
    source = cache / "evil.c"
    source.write_text(f'#include <stdio.h>\n__attribute__((constructor)) void f(void) {{ fopen("{cache}/ran", "w"); }}')
    made.unlink()
    subprocess.run([*compiled.compiler(), "-shared", "-fPIC", str(source), "-o", str(made)], check=True)
    compiled.kernel.cache_clear()
    return made


@needs_compiler
@pytest.mark.parametrize("folder", [0o777, 0o770, 0o700])
def test_code_that_others_could_have_put_there_is_never_loaded(
    folder: int, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = poisoned(cache, monkeypatch)
    made.chmod(0o666)
    made.parent.chmod(folder)
    assert compiled.kernel() is not None
    assert not (cache / "ran").exists()


@needs_compiler
def test_code_of_another_user_is_never_loaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned(cache, monkeypatch).chmod(0o700)
    monkeypatch.setattr("ldm.operating_system.os.geteuid", lambda: 12345)
    assert compiled.kernel() is None
    assert not (cache / "ran").exists()


@needs_compiler
def test_a_link_in_the_place_of_the_folder_is_not_followed(
    cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (cache / "compiled").symlink_to(tmp_path_factory.mktemp("elsewhere"), target_is_directory=True)
    assert compiled.kernel() is not None
    assert not any((cache / "compiled").iterdir())


@needs_compiler
def test_another_processor_gets_a_file_of_its_own(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.kernel()
    compiled.kernel.cache_clear()
    monkeypatch.setattr(compiled, "_processor", lambda: "flags: another")
    compiled.kernel()
    assert len(list((cache / "compiled").iterdir())) == 2


@pytest.mark.parametrize(
    ("compiler", "said"),
    [("no-such-compiler", "no C compiler (no-such-compiler)"), ("false", "returned non-zero exit status 1")],
)
def test_without_a_compiler_that_works_torch_averages_and_that_is_told(
    cache: Path, compiler: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", compiler)
    with caplog.at_level(logging.INFO):
        assert compiled.kernel() is None
    assert said in caplog.text and "moved by torch" in caplog.text
    assert not any((cache / "compiled").glob("*.so")) if (cache / "compiled").exists() else True


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "compiled").write_text("a file where the folder should be")
    assert compiled.kernel() is None
