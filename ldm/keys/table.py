"""A two-way table between a module's key names and those of the files that hold its weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ldm.files.state import State


@dataclass(frozen=True)
class KeyTable:
    """`names` maps a library module's keys to those on disk; the module itself is held as the attribute `attribute`.

    A key that the table does not know keeps its name in both directions, so that nothing is lost on the way and
    a comparison of key sets can name it. `aliases` are old spellings of the library's keys.
    """

    names: Mapping[str, str]
    attribute: str
    aliases: Mapping[str, str] = field(default_factory=dict)

    def to_disk(self, state: State) -> State:
        """Keys of the owner (`network.conv_in.weight`) to keys on disk (`input_blocks.0.0.weight`)."""
        names = {f"{self.attribute}.{key}": name for key, name in self.names.items()}
        return {names.get(key, key): value for key, value in state.items()}

    def from_disk(self, state: State) -> State:
        """Keys on disk, of the library's module or of the owner to keys of the owner."""
        keys = {name: key for key, name in self.names.items()} | {key: key for key in self.names} | dict(self.aliases)
        return {f"{self.attribute}.{keys[key]}" if key in keys else key: value for key, value in state.items()}
