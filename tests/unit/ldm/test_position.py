"""The position: what one window adds, and that it is taken over in place."""

from ldm.position import Position


def test_training_starts_at_nothing() -> None:
    assert Position() == Position(step=0, slot=0, images=0)


def test_a_window_is_one_step_and_its_examples() -> None:
    position = Position(step=3, slot=24, images=100)
    position.advance(8)
    assert position == Position(step=4, slot=32, images=108)


def test_a_stored_position_is_taken_over_in_place() -> None:
    stored = Position(step=3, slot=24, images=100).state_dict()
    shared = Position()
    seen_by_another = shared
    shared.load_state_dict(stored)
    assert seen_by_another == Position(step=3, slot=24, images=100)


def test_what_is_stored_is_plain_numbers() -> None:
    assert Position(step=1, slot=2, images=3).state_dict() == {"step": 1, "slot": 2, "images": 3}
