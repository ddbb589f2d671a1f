"""A text encoder of a family: where it lies in a file, in a folder, and how to get from one to the other."""

from dataclasses import dataclass

from ldm.families.spellings import Spelling
from ldm.files.state import State
from ldm.keys.split_checkpoint import below


@dataclass(frozen=True)
class Encoder:
    """One text encoder of a family.

    folder    its folder in a pipeline; the tokenizer's is named alike
    prefix    of its tensors in a single file
    spelling  how a file names them below the prefix, and which network of transformers they are
    pad       the token that fills up captions
    file      what a file of it alone is called where single files of the family come without it
    setting   what settings call it, where a model can do without it, on zeros in its place
    """

    folder: str
    prefix: str
    spelling: Spelling
    pad: str
    file: str = ""
    setting: str = ""

    @property
    def tokenizer(self) -> str:
        return self.folder.replace("text_encoder", "tokenizer")

    def to_transformers(self, state: State) -> State:
        """This encoder out of a whole file, under transformers' names of today; {} if it is not there.

        Tensors for which transformers has no place are left out: see `unplaced`.
        """
        return self.spelling.to_transformers(below(state, self.prefix))[0]

    def unplaced(self, state: State) -> State:
        """Tensors of this encoder that a pipeline's folder has no place for, under their names in the whole file."""
        left = self.spelling.to_transformers(below(state, self.prefix))[1]
        return {self.prefix + key: value for key, value in left.items()}

    def to_file(self, state: State) -> State:
        """transformers' tensors, of any of its versions, under their names in a whole file."""
        return {self.prefix + key: value for key, value in self.spelling.to_file(state).items()}

    def absent(self, state: State) -> State:
        """What a complete file has of this encoder and `state`, a whole file, has not: tensors that follow from others
        or that nothing reads."""
        own = below(state, self.prefix)
        made = self.spelling.absent(own) if own else {}
        return {self.prefix + key: value for key, value in made.items() if key not in own}
