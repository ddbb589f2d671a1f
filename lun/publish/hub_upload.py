"""Sending files to a repository of the hub, and in words why that could not be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import validate_repo_id

from ldm.errors import Fault
from ldm.files.hub import unreachable

CLIENT_ERROR: type[BaseException] = HfHubHTTPError.__bases__[0]
"""What the web client raises on which the library is built, whichever that is."""
LOG_IN = "hf auth login, with a token that may write (on the hub: Settings, Access Tokens); or export HF_TOKEN=TOKEN"
_TOKEN = re.compile(r"hf_\w+|(?i:bearer)\s+\S+")
_WHY = {
    401: ("the hub does not know the token, or it has expired", LOG_IN),
    403: ("the token may not write there", "a token that may write, and a name below which its owner may make models"),
    404: ("there is no such model, or the token may not see it", "without --update, which makes it"),
    409: ("there is a model of that name already", "--update to add a version to it, or another name"),
}
"""Why and fix by the code of the hub's answer."""


def require_name(repository: str) -> None:
    """Raise `Fault` CLI03 for what is no ORG/NAME."""
    try:
        validate_repo_id(repository)
        problem = "" if repository.count("/") == 1 else "it names no owner"
    except HFValidationError as error:
        problem = str(error)
    if problem:
        raise Fault("CLI03", f"{repository} is no name of a model", where="ORG/NAME", why=problem, fix="ORG/NAME")


def send(files: Mapping[str, Path], repository: str, private: bool, update: bool, message: str) -> str:
    """Make the repository, or with `update` take the one that is there, and add the files in one commit; its address.

    Raises `Fault` MOD09 where there is no token or network, and for whatever the hub refuses.
    """
    if huggingface_hub.get_token() is None:
        raise Fault("MOD09", "there is no token for the hub", fix=LOG_IN)
    if reason := unreachable():
        fix = "unset HF_HUB_OFFLINE" if "HF_HUB_OFFLINE" in reason else "once there is a network, the same line"
        raise Fault("MOD09", f"{repository} cannot be reached", why=reason, fix=fix)
    api = huggingface_hub.HfApi()
    address = f"{api.endpoint}/{repository}"
    if not update:
        with _in_words(repository, ""):
            address = str(api.create_repo(repository, private=private))
    with _in_words(repository, "" if update else "the model is there and holds nothing yet; --update goes on"):
        added = [
            huggingface_hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=file) for name, file in files.items()
        ]
        api.create_commit(repository, added, commit_message=message)
    return address


@contextmanager
def _in_words(repository: str, after: str) -> Iterator[None]:
    """Errors of the hub's client as `Fault` MOD09; a token that one of them holds is not shown."""
    try:
        yield
    except (CLIENT_ERROR, OSError) as error:
        code = getattr(getattr(error, "response", None), "status_code", None)
        said = _TOKEN.sub("(token)", (str(error).strip() or type(error).__name__).splitlines()[0])
        why, fix = _WHY.get(code or 0, (said, "the same line again, once that is mended"))
        fix = f"{fix}\n{after}" if after else fix
        raise Fault("MOD09", f"{repository} could not be published", why=why, fix=fix) from None
