"""Which runs a command line or a file of them means."""

from pathlib import Path

import pytest

from ldm.errors import Fault
from lun.sweep.trials import Trial, product_of, queue_of, split_values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1e-5,3e-5", ["1e-5", "3e-5"]),
        ("[0.9,0.99]", ["[0.9,0.99]"]),
        ("[0.9,0.99], [0.9,0.999]", ["[0.9,0.99]", "[0.9,0.999]"]),
        ("{a: 1, b: 2},null", ["{a: 1, b: 2}", "null"]),
        ('"a fox, sitting"', ['"a fox, sitting"']),
        ("a,", ["a,"]),
        ("", [""]),
    ],
)
def test_values_are_apart_by_commas_outside_of_brackets_and_quotes(text: str, values: list[str]) -> None:
    assert split_values(text) == values


def test_settings_with_several_values_are_multiplied_and_all_other_words_stay_where_they_are() -> None:
    words = ["--base", "emoji", "--data_root", "a,b", "x.rate=1,2", "x.betas=[1,2]", "--max_steps", "9", "x.size=3,4"]
    trials = product_of(words)
    assert [dict(trial.values) for trial in trials] == [
        {"x.rate": rate, "x.size": size} for rate in "12" for size in "34"
    ]
    assert trials[1].words == (*words[:4], "x.rate=1", "x.betas=[1,2]", "--max_steps", "9", "x.size=4")
    names = [trial.name for trial in trials]
    assert len(set(names)) == 4 and names[0].startswith("rate=1,size=3-") and product_of(words)[0].name == names[0]


def test_a_queue_is_the_lines_of_a_file_whatever_program_they_begin_with(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(
        "# two runs\npython main.py --base emoji 'a.b=x y' -t\n\nlun-train --base sd15\n--base emoji -t  # last\n"
    )
    trials = queue_of(tmp_path / "q.txt")
    assert [trial.words for trial in trials] == [
        ("--base", "emoji", "a.b=x y"),
        ("--base", "sd15"),
        ("--base", "emoji"),
    ]
    assert [trial.values["line"] for trial in trials] == ["2", "4", "5"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rm -rf x", "a queue runs main.py alone, not rm"),
        ("--base emoji -r logs/RUN", "--resume has no effect"),
        ("--base emoji -n mine", "--name has no effect"),
        ("--base emoji -l elsewhere", "--logdir has no effect"),
        ("--base emoji --check", "--check has no effect"),
        ("--base emoji --time-limit 1:00", "--time-limit has no effect"),
        ("--base 'emoji", "is no command line"),
        ("--bas emoji", "unknown option"),
        ("--base emoji a.b=1..2", "1..2 is a range"),
        ("--base emoji\n--base emoji -t", "two runs are the same"),
        ("# nothing", "holds no command line"),
    ],
)
def test_what_a_sweep_cannot_run_is_refused_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(f"{line}\n")
    with pytest.raises(Fault) as caught:
        queue_of(tmp_path / "q.txt")
    assert message in caught.value.render()
    if "nothing" not in line:
        assert "q.txt:" in caught.value.render()


def test_a_product_of_nothing_or_of_too_much_is_refused() -> None:
    with pytest.raises(Fault, match="no setting has several values"):
        product_of(["--base", "emoji", "a.b=1"])
    with pytest.raises(Fault, match="more than 1,000"):
        product_of(["--base", "emoji", *(f"a.b{key}=1,2" for key in range(10))])


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("0.00012345678901234", "0.0001235"),
        ("1.2345678901234e-05", "1.235e-05"),
        ("-0.30000000000000004", "-0.3"),
        ("0.000012", "0.000012"),
        ("1e-5", "1e-5"),
        ("4000000", "4000000"),
        ("1.2.34567", "1.2.34567"),
    ],
)
def test_a_name_has_four_digits_of_a_number_and_is_still_its_own(value: str, named: str) -> None:
    one, other = (Trial((f"a.rate={text}",), {"a.rate": text}) for text in (value, value + "1"))
    assert one.name.startswith(f"rate={named}-") and one.name != other.name
    assert one.values == {"a.rate": value}
