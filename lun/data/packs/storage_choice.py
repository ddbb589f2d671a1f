"""The storage that `data_root` of a packed set names."""

from pathlib import Path

from ldm.errors import Fault
from lun.data.packs.remote import SCHEMES, Remote
from lun.data.packs.shard_cache import CachedShards
from lun.data.packs.storage import Folder, Storage


def storage_of(data_root: str, cache_dir: str | None = None, cache_gb: float | None = None) -> Storage:
    """A folder, or what a URL names, with a cache of its shards where one is asked for.

    Raises `Fault` CFG08 for a scheme that is not known, and for a cache that has no effect or no limit.
    """
    scheme, colon, _ = data_root.partition("://")
    if (cache_dir is None) != (cache_gb is None):
        raise Fault("CFG08", "cache_dir and cache_gb belong together", why="a cache needs a folder and a limit")
    if not colon or scheme == "file":
        if cache_dir is not None:
            what = "cache_dir has no effect on a set in a folder"
            raise Fault("CFG08", what, where="cache_dir", why=f"{data_root} is read where it lies", fix="without it")
        return Folder(Path(data_root.removeprefix("file://")).expanduser())
    if scheme not in SCHEMES:
        raise Fault("CFG08", f"data_root cannot be a {scheme}:// URL", why=f"it takes a folder, {', '.join(SCHEMES)}")
    remote = Remote(data_root)
    if cache_dir is None or cache_gb is None:
        return remote
    if cache_gb <= 0:
        raise Fault("CFG08", f"cache_gb cannot be {cache_gb}", why="it takes a number above 0")
    return CachedShards(remote, Path(cache_dir).expanduser(), int(cache_gb * 1e9))
