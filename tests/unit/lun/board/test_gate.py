"""Who may ask the board."""

import pytest
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request

from lun.board.gate import Gate, drawn_token


def request(address: str, host: str = "127.0.0.1:6017") -> Request:
    return Request(EnvironBuilder(path=address, headers={"Host": host}).get_environ())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "127.0.0.1:6017"])
def test_without_a_token_this_machine_is_let_in(host):
    assert Gate(None).lets_in(request("/", host))


@pytest.mark.parametrize("host", ["far.example", "localhost.far.example:1", "10.0.0.1:6017", "127.0.0.1@far:1"])
def test_another_name_is_not(host):
    assert not Gate(None).lets_in(request("/", host))


def test_a_drawn_token_is_new_each_time_and_long(monkeypatch):
    monkeypatch.delenv("LUN_BOARD_TOKEN", raising=False)
    assert len(drawn_token()) >= 16 and drawn_token() != drawn_token()
