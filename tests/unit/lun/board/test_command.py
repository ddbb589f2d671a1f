"""`python -m lun.board` from the command line to its answers."""

import socket
import threading
import urllib.request
from contextlib import contextmanager

import pytest
from support.run_folder import make_run

from lun.board.command import run, server_of


@pytest.fixture
def said(caplog):
    """What the command says, line by line."""
    caplog.set_level("INFO", logger="lun.board.command")
    return lambda: caplog.messages


@contextmanager
def serving(server):
    """Answers in a thread while the block runs."""
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_browser_with_the_address_that_is_said_is_served(logs, said):
    server = server_of(logs, None, 0)
    (line,) = [line for line in said() if line.startswith("look")]
    address = line.split()[1]
    assert address.startswith("http://127.0.0.1:") and "?token=" in address
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with serving(server):
        assert b"a/same" in opener.open(address).read()


def test_the_tokens_variable_is_the_token_and_a_short_one_is_refused(logs, monkeypatch, capsys, said):
    monkeypatch.setenv("LUN_BOARD_TOKEN", "0123456789abcdef")
    server_of(logs, "127.0.0.1", 0).server_close()
    assert said()[-1].endswith("/?token=0123456789abcdef")
    monkeypatch.setenv("LUN_BOARD_TOKEN", "short")
    assert run([str(logs), "--port", "0"]) == 2
    assert "LUN_BOARD_TOKEN has 5 characters" in capsys.readouterr().err


def test_by_default_there_is_no_token_and_a_taken_port_is_no_hindrance(logs, said):
    servers = [server_of(logs, None, None) for _ in range(2)]
    ports = {server.port for server in servers}
    for server in servers:
        server.server_close()
    told = "\n".join(said())
    assert len(ports) == 2 and "token" not in told and all(f"http://127.0.0.1:{port}/" in told for port in ports)


def test_a_port_that_cannot_be_had_is_refused_by_name(logs, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port in (taken.getsockname()[1], 99_999):
            assert run([str(logs), "--port", str(port)]) == 2
            assert f"cannot listen at 127.0.0.1:{port}" in capsys.readouterr().err


def test_once_writes_the_page_of_each_run(logs, capsys):
    assert run([str(logs), "--once"]) == 0
    assert sorted(path.parent.parent.name for path in logs.glob("*/same/report.html")) == ["a", "b"]
    assert capsys.readouterr().out.count("report.html") == 2


def test_once_of_one_run_writes_its_page(tmp_path):
    assert run([str(make_run(tmp_path / "run")), "--once"]) == 0
    assert (tmp_path / "run/report.html").exists()


@pytest.mark.parametrize(
    "words, said",
    [
        (["nowhere"], "there is no folder nowhere"),
        ([".", "--once"], "there is no run in ."),
        ([".", "--once", "--port", "1"], "no effect beside --once"),
        ([".", "--port", "many"], "invalid int value"),
    ],
)
def test_what_makes_no_sense_is_refused(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(words) == 2
    assert said in capsys.readouterr().err
