"""The families that are known, and which of them a set of tensors belongs to, by names and shapes.

Known are those of this package, those that a person names (`register_named`), and those that a module of one's own
registers when it is imported, as the module of a network does that a config names:

    TOY = register(Family("toy", ...))
"""

from ldm.admission import get_obj_from_str
from ldm.errors import Fault
from ldm.families.installed import hint
from ldm.families.record import Family, Latent, Variant
from ldm.families.sd1 import SD1
from ldm.families.sd2 import SD2
from ldm.families.sd3 import SD3
from ldm.families.sdxl import SDXL
from ldm.files.state import State
from ldm.keys.strangers import looks_like

SHIPPED = (SD1, SD2, SDXL, SD3)
_registered: dict[str, Family] = {}


def register(family: Family) -> Family:
    """Let files of `family` be recognised in this process; takes the place of an earlier one of its name.

    Raises `Fault` CFG08 for the name of a family that is shipped.
    """
    if family.name in {shipped.name for shipped in SHIPPED}:
        raise Fault("CFG08", f"the name {family.name} of a family is taken", fix="give your family another name")
    _registered[family.name] = family
    return family


def register_named(path: str) -> Family:
    """The family at an import path, registered. Raises `Fault` CFG04 where there is none, CFG08 as `register` does."""
    try:
        family = get_obj_from_str(path)
    except ImportError as error:
        raise Fault("CFG04", f"the family {path} cannot be loaded", why=str(error), fix="mend its module") from error
    if not isinstance(family, Family):
        raise Fault("CFG04", f"{path} is no ldm.families.record.Family", fix="name the value that is one")
    return register(family)


def known_families() -> tuple[Family, ...]:
    """All families, the shipped ones first."""
    return (*SHIPPED, *_registered.values())


def family_of(network: State, source: str) -> Family:
    """The family of a network's tensors, under the names of files and without prefix.

    A public one is known by its widths. Any other belongs to the one family that builds its networks like that.
    Raises `Fault` MOD03 for a network that is none of theirs, or that two families claim.
    """
    families = [family for family in known_families() if family.network.recognises(network)]
    public = [(family, variant) for family in families for variant in family.variants if variant.matches(network)]
    if public and public[0][1].spec is None:
        variant = public[0][1]
        raise Fault("MOD03", f"{source} is {variant.title}, which is not converted", why=f"known by: {variant.facts}")
    matches = [family for family, _ in public] or [family for family in families if family.built_like(network)]
    if not matches:
        raise Fault(
            "MOD03",
            f"{source} is no {families_in_words()} that is known here",
            why=looks_like(network)
            or "its UNet has no cross-attention, or names and shapes of another kind of network",
            fix=known_in_words("and autoencoders alone"),
        )
    if len(matches) > 1:
        names = " and ".join(family.title for family in matches)
        raise Fault("MOD03", f"{source} could be {names}", why="both recognise its names and shapes")
    return matches[0]


def variant_of(network: State) -> Variant | None:
    """The published model whose names and shapes a network has, under CompVis' or the library's names without prefix.

    None for any other network.
    """
    variants = (variant for family in known_families() for variant in family.variants)
    return next((variant for variant in variants if variant.matches(network)), None)


def latent_of(scale: float | None, channels: int | None) -> Latent:
    """The latents of an autoencoder alone, by their scale, else by their channels, else those of SD 1.x."""
    latents = [family.latent for family in known_families()]
    fitting = [latent for latent in latents if latent.channels == channels] or [SD1.latent]
    return next((latent for latent in latents if latent.scale == scale), fitting[0])


def families_in_words() -> str:
    """What a file has to be, for messages."""
    own = [family.title for family in known_families()[len(SHIPPED) :]]
    return " or ".join(["Stable Diffusion", *own])


def known_in_words(further: str) -> str:
    """All that is known, for messages."""
    families = ", ".join(family.title for family in known_families())
    return f"known are {families}, their inpainting kinds {further}{hint()}"
