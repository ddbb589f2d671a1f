"""Hub ids where there is no hub."""

import json
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub._tree_cache import TREE_CACHE_FORMAT_VERSION

from ldm.errors import Fault
from ldm.files import hub


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hub, "_cached", lambda *asked: None)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *args, **options: pytest.fail("asked the hub"))
    return tmp_path


def test_offline_is_said_at_once_with_the_command_that_mends_it(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(Fault) as caught:
        hub.hub_folder("org/model", ["model.safetensors"])
    assert caught.value.id == "MOD01"
    assert "HF_HUB_OFFLINE" in caught.value.why
    assert "hf download org/model" in caught.value.fix


def test_a_hub_that_does_not_answer_is_asked_once(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        calls = 0

        def head(self, url: str, timeout: float) -> None:
            Client.calls += 1
            raise ConnectionError

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.utils.get_session", Client)
    with pytest.raises(Fault, match="cannot be reached"):
        hub.hub_folder("org/model", ["model.safetensors"])
    assert Client.calls == 1


@pytest.mark.parametrize("name", ["models/clip/large", "/models", "clip"])
def test_a_path_is_not_looked_up_on_the_hub(empty_cache: Path, name: str) -> None:
    with pytest.raises(Fault, match="not a hub id"):
        hub.hub_folder(name, ["model.safetensors"])


@pytest.mark.parametrize("revision", ["/", ".", "..", "../../x", "refs/pr", "a//b", "refs/"])
def test_a_revision_that_is_a_folder_of_the_cache_or_outside_of_it_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    (tmp_path / "models--org--model/refs/refs/pr").mkdir(parents=True)
    with pytest.raises(Fault, match="cannot find the model"):
        hub.pipeline_folder(f"org/model@{revision}")


def test_what_is_cached_is_taken_without_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vocab.json").touch()
    monkeypatch.setattr(hub, "_cached", lambda *asked: tmp_path)
    monkeypatch.setattr(hub, "unreachable", lambda: pytest.fail("asked the hub"))
    assert hub.hub_folder("org/model", ["vocab.json", "tokenizer.json"]) == tmp_path


FILE = {"size": 0, "blob_id": "0"}


def test_what_was_downloaded_in_part_is_found_again_without_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's library lists all files of a repository beside those that it has brought."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    home, commit = tmp_path / "models--org--model", "0" * 40
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text(commit)
    unet = home / "snapshots" / commit / "unet" / "diffusion_pytorch_model.safetensors"
    unet.parent.mkdir(parents=True)
    unet.touch()
    listed = dict.fromkeys((f"unet/diffusion_pytorch_model.{kind}" for kind in ("safetensors", "bin")), FILE)
    (home / "trees").mkdir()
    tree = {"format_version": TREE_CACHE_FORMAT_VERSION, "files": listed}
    (home / "trees" / f"{commit}.json").write_text(json.dumps(tree))
    assert hub.pipeline_folder("org/model") == unet.parents[1]
    hub.require_hub_id("org/model")
