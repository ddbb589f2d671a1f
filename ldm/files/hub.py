"""Models that are named instead of pathed: from the cache on this machine or from the hub, without long waits."""

from collections.abc import Sequence
from pathlib import Path

from ldm.errors import Fault
from ldm.files.weights_path import HUB_ID

PIPELINE = (
    *(f"{part}/*.safetensors" for part in ("unet", "transformer", "vae")),
    *(f"{part}/*.safetensors" for part in ("text_encoder", "text_encoder_2", "text_encoder_3")),
    "diffusion_pytorch_model.safetensors",  # of a component alone
)
BESIDE_PIPELINE = ("model_index.json", "config.json", "*/config.json", "*/*.safetensors.index.json", "scheduler/*")
PATIENCE = 5.0  # seconds to find out whether the hub answers at all


def hub_folder(name: str, needed: Sequence[str], wanted: Sequence[str] = ()) -> Path:
    """A local folder with at least one of the files `needed` of the model `name` (`organisation/model[@revision]`).

    What is on this machine is taken as it is; otherwise these files and those of `wanted` are downloaded.
    Raises `Fault` MOD01 at once if the name is none, the hub does not answer, or it does not have the model.
    """
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    repository, revision = _parsed(name)
    patterns = [*needed, *wanted]
    if (folder := _cached(repository, revision, patterns)) and any(any(folder.glob(file)) for file in needed):
        return folder
    _require_hub(name, repository)
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=patterns))
    except (HfHubHTTPError, RepositoryNotFoundError, OSError) as error:
        why = f"{constants.ENDPOINT}: {(str(error) or type(error).__name__).splitlines()[0]}"
        raise Fault("MOD01", f'cannot download the model "{name}"', why=why) from error


def require_hub_id(name: str) -> None:
    """Raise the `Fault` MOD01 that loading the model `name` would end with, as far as that can be known at once."""
    repository, revision = _parsed(name)
    if _cached(repository, revision, (*PIPELINE, *BESIDE_PIPELINE)) is None:
        _require_hub(name, repository)


def _parsed(name: str) -> tuple[str, str | None]:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    match = HUB_ID.fullmatch(name)
    if match is None:
        raise Fault("MOD01", f'cannot find the model "{name}"', why="no such folder, and it is not a hub id (org/name)")
    try:
        validate_repo_id(match[1])
    except HFValidationError as error:
        raise Fault(
            "MOD01", f'cannot find the model "{name}"', why=f"no such folder, and as a hub id: {error}"
        ) from error
    if {".", ".."} & {*(match[2] or "").split("/")}:
        raise Fault("MOD01", f'cannot find the model "{name}"', why=f"{match[2]} is no revision")
    return match[1], match[2]


def _require_hub(name: str, repository: str) -> None:
    if reason := unreachable():
        raise Fault(
            "MOD01",
            f'cannot find the model "{name}"',
            why=f"no such folder, not in the cache on this machine, and {reason}",
            fix=f"on a machine with internet: hf download {repository} --local-dir models/{repository.split('/')[1]}\n"
            "then give that folder instead of the name; or start from a file: model.params.ckpt_path=FILE",
        )


def pipeline_folder(name: str) -> Path:
    """The local folder of a whole pipeline; faults as `hub_folder`'s."""
    return hub_folder(name, PIPELINE, BESIDE_PIPELINE)


def unreachable() -> str:
    """Why the hub cannot be asked, or an empty string if it answers."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        get_session().head(constants.ENDPOINT, timeout=PATIENCE)
    except Exception as error:  # the library's web client, and so the kind of its errors, changes between versions
        return f"{constants.ENDPOINT} cannot be reached ({type(error).__name__})"
    return ""


def _cached(repository: str, revision: str | None, patterns: Sequence[str]) -> Path | None:
    """The folder in the cache with all files of these names; without the names, one with fewer than all is none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(repository, revision=revision, allow_patterns=list(patterns), local_files_only=True)
        )
    except (LocalEntryNotFoundError, IsADirectoryError):  # a revision of which others are the beginning: refs/pr
        return None
