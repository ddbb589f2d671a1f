"""Faults: how they read, and that nothing is lost on the way between processes."""

import pickle

from ldm.errors import Fault


def test_a_fault_reads_as_id_and_what_with_a_line_for_each_part_that_it_has() -> None:
    fault = Fault("CFG04", "cannot load target torch.nn.Idenity", where="model.yaml:58", fix="torch.nn.Identity")
    assert str(fault) == (
        "error[CFG04]: cannot load target torch.nn.Idenity\n  where: model.yaml:58\n  fix:   torch.nn.Identity"
    )


def test_a_fault_with_nothing_more_to_say_is_one_line() -> None:
    assert str(Fault("DAT02", "no images")) == "error[DAT02]: no images"


def test_further_lines_of_a_part_are_indented_below_its_first() -> None:
    lines = Fault("DAT02", "no images", why="3 unreadable\n2 too small").render().splitlines()
    assert lines[1:] == ["  why:   3 unreadable", "         2 too small"]


def test_the_same_text_can_be_a_warning() -> None:
    assert Fault("DAT07", "long captions").render("warning") == "warning[DAT07]: long captions"


def test_a_fault_of_another_process_arrives_whole() -> None:
    fault = Fault("DAT01", "no folder", where="--data_root", why="it is gone", fix="mount it")
    arrived = pickle.loads(pickle.dumps(fault))
    assert isinstance(arrived, Fault)
    assert (arrived.id, arrived.render()) == ("DAT01", fault.render())
