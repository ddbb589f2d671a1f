"""What a run keeps on the disk."""

from support.run_folder import make_run

from lun.report import disk_use as module
from lun.report.disk_use import disk_use


def test_checkpoints_are_listed_one_by_one_and_folders_as_a_whole(tmp_path):
    run = make_run(tmp_path / "run")
    uses, unseen = disk_use(run)
    found = {use.name: use for use in uses}
    assert uses[0].name == "checkpoints/last.ckpt" and found["checkpoints/last.ckpt"].size == 2000
    assert (found["images/"].files, found["configs/"].files, unseen) == (7, 1, [])


def test_links_are_not_followed_but_that_to_the_checkpoints(tmp_path):
    (tmp_path / "big").mkdir()
    (tmp_path / "big/far.ckpt").write_bytes(b"0" * 9000)
    run = make_run(tmp_path / "run")
    (run / "checkpoints/last.ckpt").unlink()
    (run / "checkpoints").rmdir()
    (run / "checkpoints").symlink_to(tmp_path / "big")
    (run / "linked").symlink_to(tmp_path)
    found = {use.name: use.size for use in disk_use(run)[0]}
    assert found["checkpoints/far.ckpt"] == 9000 and found["linked"] < 9000


def test_what_was_not_looked_at_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)
    assert disk_use(make_run(tmp_path / "run"))[1] == ["files past the first 2"]
