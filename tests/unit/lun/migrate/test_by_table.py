"""What a table's words come to: settings of a run and of a set alike, and words of the command."""

from lun.migrate.by_table import meaning, said_by
from lun.migrate.draft import Draft
from lun.migrate.foreign import Taken
from lun.other_trainers.counterparts import Counterpart, ProgramTable, changed, flag, setting

ROW = Counterpart(
    ("a.b={}", "--seed", "{}", "--max_steps", "{}", "--data_root", "{}", "--name", "{}"),
    choices={"true": setting("a.on", "", lambda text: "yes"), "2": setting("a.two", "")},
)


def test_words_are_settings_of_their_kind_and_what_no_setting_stands_for_is_typed() -> None:
    _, settings, command = meaning(ROW, 7)
    trained = [("a.b", 7), ("seed", 7), ("lightning.trainer.max_steps", 7)]
    assert settings == [*trained, ("data.params.train.params.data_root", "7")] and command == ["--name", "7"]


def test_a_value_with_a_row_of_its_own_means_that_in_a_run_and_in_a_set() -> None:
    assert meaning(ROW, 2).settings == [("a.two", 2)]
    assert said_by(Taken({"x": True}, "set"), {"x": ROW})[0].keys() == {"a.on"}
    draft = Draft(ProgramTable("", "", {"x": ROW}))
    draft.translate(Taken({"x": True}, "command"))
    assert draft.settings["a"].keys() == {"on"}


def test_what_differs_is_told_where_it_is_a_word_of_the_command_alone() -> None:
    draft = Draft(ProgramTable("", "", {"x": changed(flag("--name", ""), "a folder of that name")}))
    draft.translate(Taken({"x": "fox"}, "command"))
    assert draft.words == ["--name", "fox"] and draft.notes["same"] == ["x = fox: a folder of that name"]
