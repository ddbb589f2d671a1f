import pytest

from ldm.errors import Fault
from lun.config.reading.interpolation import resolved_by_library
from lun.config.reading.references import resolved


def doubling(times, step):
    """Forty settings, each of which refers to the one before twice."""
    return {"a0": "x" * 100} | {f"a{number + 1}": step(f"{times}a{number}") for number in range(40)}


@pytest.mark.parametrize("dots", ["", "."])
def test_texts_that_would_double_without_end_are_refused_before_they_do(dots):
    with pytest.raises(Fault, match="CFG06"):
        resolved(doubling(dots, lambda name: f"${{{name}}}${{{name}}}"), {})


def test_lists_that_would_double_without_end_are_refused_before_they_do():
    with pytest.raises(Fault, match="CFG06"):
        resolved(doubling("", lambda name: [f"${{{name}}}"] * 2), {})


TEXTS = ("${a}", "${b.c}", "x-${a}-${b.c}", "{${b.c}:.3f}", "${f}", "${b.d}", "${t}", "${t} ${t}", "${s}", "${a}}")
ODD = (
    *(
        "${n}",
        "x${n}",
        "${b}",
        "${l}",
        "${l.0}",
        "${q}",
        "$ ${a}",
        "\\${a}",
        "${.a}",
        "${b[c]}",
        "${oc.env:HOME}",
        "${r}",
    ),
    *("${nothing}", "${a", "???${a}", "${ a }", "${w}", "${w}${a}", "${r}"),
)
BESIDE = {
    **{"a": 1, "b": {"c": "word", "d": 1e-05}, "f": 0.1, "t": True, "s": "1", "n": None, "l": [1, 2], "q": "???"},
    **{"r": "${a}", "w": "a\\b"},
}


@pytest.mark.parametrize("text", TEXTS + ODD)
def test_a_plain_reference_comes_to_what_the_library_says_without_it(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**BESIDE, "here": {"there": [text]}}
    places = [(("here", "there", "0"), text), (("r",), "${a}")]
    expected, faults = resolved_by_library(config, places, {})
    asked = []

    def library(*given: object) -> object:
        asked.append(given)
        return expected, faults

    monkeypatch.setattr("lun.config.reading.interpolation.resolved_by_library", library)
    assert resolved(config, {}) == (expected, faults)
    assert bool(asked) == (text in ODD)
