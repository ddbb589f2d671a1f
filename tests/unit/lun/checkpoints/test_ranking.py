from hypothesis import given
from hypothesis import strategies as st

from lun.checkpoints.ranking import KEEP_ALL, Saved, place


def entry(step: int, score: float | None = None, path: str | None = None) -> Saved:
    return Saved(path or f"{step}.ckpt", step, score)


def test_without_scores_the_newest_stay():
    outcome = place([entry(2), entry(1)], entry(3), keep=2)
    assert outcome.kept == [entry(3), entry(2)]
    assert outcome.dropped == [entry(1)]


def test_a_score_worse_than_all_is_not_worth_a_file():
    assert place([entry(1, 0.1), entry(2, 0.2)], entry(3, 0.3), keep=2) is None


def test_the_largest_are_the_best_if_so_asked():
    outcome = place([entry(1, 0.1), entry(2, 0.2)], entry(3, 0.3), keep=2, mode="max")
    assert [saved.step for saved in outcome.kept] == [3, 2]


def test_of_equal_scores_the_first_stays():
    assert place([entry(1, 0.1)], entry(2, 0.1), keep=1) is None


def test_a_fixed_name_is_only_overwritten_by_a_better_score():
    best = entry(1, 0.1, "best.ckpt")
    assert place([best], entry(2, 0.2, "best.ckpt"), keep=3) is None
    outcome = place([best], entry(2, 0.05, "best.ckpt"), keep=3)
    assert (outcome.kept, outcome.dropped) == ([entry(2, 0.05, "best.ckpt")], [])


def test_a_fixed_name_without_score_is_overwritten_and_not_deleted():
    outcome = place([entry(1, path="x.ckpt")], entry(2, path="x.ckpt"), keep=1)
    assert (outcome.kept, outcome.dropped) == ([entry(2, path="x.ckpt")], [])


def test_all_are_kept_without_a_list():
    assert place([], entry(1), KEEP_ALL).dropped == []


@given(st.lists(st.floats(-9, 9), max_size=12), st.integers(1, 4))
def test_what_is_kept_is_always_the_best_seen_so_far(scores, keep):
    kept: list[Saved] = []
    for step, score in enumerate(scores):
        outcome = place(kept, entry(step, score), keep)
        if outcome:
            assert {*outcome.kept, *outcome.dropped} == {*kept, entry(step, score)}
            kept = outcome.kept
    assert [saved.score for saved in kept] == sorted(scores)[:keep]
