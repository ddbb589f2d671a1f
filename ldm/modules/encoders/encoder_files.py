"""Text encoders of one model that come in a file each, as those of Stable Diffusion 3 do."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from ldm.errors import Fault
from ldm.families.part_names import text_encoders
from ldm.families.text_encoders import Encoder
from ldm.files.load import fit
from ldm.files.state import State
from ldm.files.weights_location import find_source
from ldm.keys.layout import refuse_scaled
from ldm.keys.split_checkpoint import TEXT_ENCODERS, below

EncoderPaths = Mapping[str, str | None]
"""{encoder, as the settings call it: a file of it, a folder or a hub id; null: it comes from elsewhere}."""
TOWER = ("text_model.", "text_projection.")
WHERE = "model.params.cond_stage_config.params"


def read_encoder(path: str, encoder: Encoder) -> State:
    """A text encoder, named as in a whole file, out of a file of it alone, its folder, a pipeline or a whole file.

    Raises `Fault` MOD01 to MOD05 for what cannot be read.
    """
    state = find_source(path, encoder.folder).read()
    refuse_scaled(state, path)
    prefixes = (encoder.prefix, encoder.prefix.removeprefix(TEXT_ENCODERS), "transformer.")
    own = next((own for prefix in prefixes if (own := below(state, prefix))), state)
    if any(key.startswith(TOWER) for key in own):  # CLIP whole, with its tower of pictures
        own = {key: value for key, value in own.items() if key.startswith(TOWER)}
    return encoder.to_file(own)


@dataclass(frozen=True)
class EncoderPlace:
    """Where one of several encoders belongs: its name in memory, and its record."""

    name: str
    encoder: Encoder

    def read(self, path: str) -> State:
        """Its tensors, named as in memory, out of `path`; see `read_encoder`."""
        return {key.removeprefix(TEXT_ENCODERS): value for key, value in read_encoder(path, self.encoder).items()}

    def require_fit(self, network: nn.Module, path: str) -> None:
        """Raise `Fault` MOD03 unless `path` holds this one of the text encoders `network`; MOD01 to MOD05 as `read`."""
        state = self.read(path)
        _, comparison = fit(getattr(network, self.name), below(state, f"{self.name}."))
        if not comparison.fits:
            raise Fault(
                "MOD03",
                f"{path} is not the text encoder {self.name} that the config builds",
                where=f"{WHERE}.ckpt_path",
                why=f"it holds: {', '.join(text_encoders(state)) or 'no text encoder'}\n{comparison.render()}",
                fix=f"name {self.encoder.file}, or the folder {self.encoder.folder} of a pipeline",
            )

    def is_in(self, state: Iterable[str]) -> bool:
        """Whether there is a tensor of it among the names of a model's text encoders."""
        return any(key.startswith(f"{self.name}.") for key in state)


Places = Mapping[str, EncoderPlace]
"""{setting: place} of a model's text encoders."""


def given_paths(paths: str | EncoderPaths | None, places: Places) -> dict[str, str]:
    """{setting: path} of the encoders that have one of their own.

    Raises `Fault` CFG03 for an encoder that the model has not got.
    """
    if paths is None or isinstance(paths, str):
        return {}
    for name in paths:
        if name not in places:
            why = f"there are {', '.join(places)}"
            raise Fault("CFG03", f"the model has no text encoder {name}", where=f"{WHERE}.ckpt_path", why=why)
    return {name: path for name, path in paths.items() if path}


def require_places(paths: str | EncoderPaths | None, places: Places, there: Sequence[str]) -> None:
    """Raise `Fault` CFG03 for a path of no encoder, CFG08 for one of an encoder that is not `there`."""
    for name, path in given_paths(paths, places).items():
        if name not in there:
            what = f"{path} has no place: the text encoder {name} is null"
            raise Fault("CFG08", what, where=f"{WHERE}.ckpt_path", fix="leave out one of both")


def with_own_files(state: State, paths: Mapping[str, str], places: Places) -> State:
    """The text encoders of a checkpoint with those that have a file of their own in their place."""
    replaced = tuple(f"{places[name].name}." for name in paths)
    kept = {key: value for key, value in state.items() if not (replaced and key.startswith(replaced))}
    for name, path in paths.items():
        kept |= places[name].read(path)
    return kept


def require_all(state: State, wanted: Sequence[str], places: Places, given: str) -> None:
    """Raise `Fault` MOD06 if one of the encoders `wanted` is not in `state`, the weights of `given`."""
    lacking = [name for name in wanted if not places[name].is_in(state)]
    if not lacking:
        return
    files = ", ".join(places[name].encoder.file for name in lacking)
    raise Fault(
        "MOD06",
        f"the text {'encoder' if len(lacking) == 1 else 'encoders'} {', '.join(lacking)} got no weights",
        where=f"{WHERE}.ckpt_path",
        why=f"{given} comes without; as files of their own they are called {files}",
        fix="\n".join(
            [
                *(f"{WHERE}.ckpt_path.{name}=text_encoders/{places[name].encoder.file}" for name in lacking),
                "or train without, on zeros in the place: " + " ".join(f"{WHERE}.{name}=null" for name in lacking),
            ]
        ),
    )
