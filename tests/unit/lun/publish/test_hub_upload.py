"""What the hub is asked for, and what a person reads when it refuses."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

from ldm.errors import Fault
from lun.publish import hub_upload
from lun.publish.hub_upload import require_name, send

SECRET = "hf_verysecrettoken"


class Hub:
    """Stands for `HfApi`: notes what it is asked, and raises what `fails` says for a call of that name."""

    endpoint = "https://hub.example"

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.fails: dict[str, Exception] = {}

    def create_repo(self, repository: str, private: bool) -> str:
        return str(self._note("create", repository, private) or f"{self.endpoint}/{repository}")

    def create_commit(self, repository: str, operations: list[Any], commit_message: str) -> None:
        self._note("commit", repository, [one.path_in_repo for one in operations], commit_message)

    def _note(self, *call: Any) -> None:
        if call[0] in self.fails:
            raise self.fails[call[0]]
        self.asked.append(call)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    found = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: found)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: SECRET)
    monkeypatch.setattr(hub_upload, "unreachable", lambda: "")
    return found


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "a.safetensors").write_bytes(b"x")
    return {"a.safetensors": tmp_path / "a.safetensors"}


def refused(code: int, kind: type[HfHubHTTPError] = HfHubHTTPError) -> HfHubHTTPError:
    answer: Any = SimpleNamespace(status_code=code, headers={}, request=None)
    return kind(f"refused, Authorization: Bearer {SECRET}", response=answer)


def test_a_model_is_made_as_visible_as_asked_and_gets_all_files_at_once(hub: Hub, files: dict[str, Path]) -> None:
    for private in (True, False):
        assert send(files, "org/a", private, False, "Weights") == "https://hub.example/org/a"
    commit = ("commit", "org/a", ["a.safetensors"], "Weights")
    assert hub.asked == [("create", "org/a", True), commit, ("create", "org/a", False), commit]


def test_an_update_makes_nothing(hub: Hub, files: dict[str, Path]) -> None:
    assert send(files, "org/a", True, True, "Weights") == "https://hub.example/org/a"
    assert [call[0] for call in hub.asked] == ["commit"]


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (refused(401), "hf auth login"),
        (refused(403), "a token that may write"),
        (refused(404, RepositoryNotFoundError), "without --update"),
        (refused(409), "--update"),
        (refused(500), "the same line again"),
        (hub_upload.CLIENT_ERROR(f"no route, {SECRET}"), "the same line again"),
        (OSError(f"broken, {SECRET}"), "the same line again"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
@pytest.mark.parametrize("call", ["create", "commit"])
def test_what_the_hub_refuses_is_a_fault_with_a_fix_and_without_the_token(
    hub: Hub, files: dict[str, Path], error: Exception, fix: str, call: str
) -> None:
    hub.fails[call] = error
    with pytest.raises(Fault) as fault:
        send(files, "org/a", True, False, "Weights")
    shown = fault.value.render()
    assert fault.value.id == "MOD09" and fix in fault.value.fix and fault.value.why
    assert SECRET not in shown and "verysecret" not in shown
    assert ("--update goes on" in shown) is (call == "commit")


def test_without_a_token_or_a_network_nothing_is_asked(
    hub: Hub, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_upload, "unreachable", lambda: "HF_HUB_OFFLINE is set")
    with pytest.raises(Fault) as offline:
        send(files, "org/a", True, False, "Weights")
    assert offline.value.fix == "unset HF_HUB_OFFLINE"
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    with pytest.raises(Fault) as nobody:
        send(files, "org/a", True, False, "Weights")
    assert nobody.value.id == "MOD09" and "hf auth login" in nobody.value.fix and hub.asked == []


@pytest.mark.parametrize("name", ["name", "a/b/c", "a//b", "-a/b", "a/b.git", "", "a b/c", "https://x/y"])
def test_a_name_that_the_hub_does_not_take_is_refused_at_once(name: str) -> None:
    with pytest.raises(Fault) as fault:
        require_name(name)
    assert fault.value.id == "CLI03"


def test_the_libraries_client_takes_what_it_is_given(files: dict[str, Path]) -> None:
    """The stand-in above has the names of the installed library's parameters."""
    from inspect import signature

    made = signature(huggingface_hub.HfApi.create_repo).bind(None, "org/a", private=True)
    sent = signature(huggingface_hub.HfApi.create_commit).bind(None, "org/a", [], commit_message="x")
    added = huggingface_hub.CommitOperationAdd(path_in_repo="a", path_or_fileobj=files["a.safetensors"])
    assert made.arguments["private"] and sent.arguments["commit_message"] and added.path_in_repo == "a"
