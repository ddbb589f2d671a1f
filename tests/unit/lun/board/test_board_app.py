"""What the board answers, and what it never does."""

import json

import pytest
from support.run_folder import Page, log_metrics, make_run

HERE = "http://127.0.0.1:6017"
TOKEN = "a token of twenty letters"


def get(client, address, **more):
    return client.get(address, base_url=more.pop("base_url", HERE), **more)


def test_the_list_has_every_run_by_its_path_and_no_link(board):
    answer = get(board(), "/")
    page = Page(answer.text)
    assert answer.status_code == 200 and page.unbalanced == []
    assert {box["value"] for box in page.attributes("input")} == {"a/same", "b/same"}
    assert {"/run/a/same", "/run/b/same"} <= {link["href"] for link in page.attributes("a")}
    assert "100 of 200 steps" in page.text and "train/loss 0.0099" in page.text


def test_a_run_has_its_page_as_it_is_now(board, logs):
    client = board()
    first = get(client, "/run/a/same")
    assert "100 steps of 200" in Page(first.text).text and "all runs" in first.text
    log_metrics(logs / "a/same", {120: {"train/loss": 0.5}})
    assert "120 steps of 200" in Page(get(client, "/run/a/same").text).text


def test_a_page_that_the_browser_has_is_not_made_again(board, logs, monkeypatch):
    monkeypatch.setattr("lun.board.board_app.time.time", lambda: 1.8e9)
    client = board()
    tag = get(client, "/run/a/same").headers["ETag"]
    assert get(client, "/run/a/same", headers={"If-None-Match": tag}).status_code == 304
    log_metrics(logs / "a/same", {120: {"train/loss": 0.5}})
    assert get(client, "/run/a/same", headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize(("status", "code"), [("running", 200), ("finished", 304)])
def test_time_alone_makes_the_page_of_a_run_anew_while_it_trains(board, logs, monkeypatch, status, code):
    file = logs / "a/same/run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"status": status}))
    monkeypatch.setattr("lun.board.board_app.time.time", lambda: 1.8e9)
    client = board()
    tag = get(client, "/run/a/same").headers["ETag"]
    monkeypatch.setattr("lun.board.board_app.time.time", lambda: 1.8e9 + 60)
    assert get(client, "/run/a/same", headers={"If-None-Match": tag}).status_code == code


@pytest.mark.parametrize(
    "path",
    [
        "/run/latest",
        "/run/out",
        "/run/../secret",
        "/run/%2e%2e/secret",
        "/run/a/../../secret",
        "/run/a%2f..%2f..%2fsecret",
        "/run/a",
        "/run/",
        "/run/a/same/run.json",
        "/run/a/same%00",
        "/run//etc/passwd",
        "/run/%2fetc",
        "/etc/passwd",
        "/static/../run.json",
        "/compare?run=a/same&run=../secret",
        "/compare?run=a/same&run=out",
    ],
)
def test_nothing_but_the_runs_below_is_served(board, path):
    assert get(board(), path, follow_redirects=True).status_code in (400, 404)


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch", "trace"])
@pytest.mark.parametrize("path", ["/", "/run/a/same", "/compare"])
def test_nothing_can_be_written(board, method, path):
    assert board().open(path, method=method.upper(), base_url=HERE).status_code == 405


def test_another_sites_name_for_this_machine_is_not_served(board):
    assert get(board(), "/", base_url="http://evil.example").status_code == 403
    assert get(board(), "/", base_url="http://127.0.0.1.evil.example:6017").status_code == 403
    assert get(board(), "/", base_url="http://localhost:6017").status_code == 200


def test_with_a_token_nobody_else_is_served_and_it_leaves_the_address(board):
    client = board(TOKEN)
    for path in ("/", "/run/a/same", "/?token=wrong", "/nothing"):
        assert get(client, path).status_code == 403
    entered = get(client, "/compare", query_string={"token": TOKEN, "run": ["a/same", "b/same"]})
    assert (entered.status_code, entered.headers["Location"]) == (303, "/compare?run=a%2Fsame&run=b%2Fsame")
    assert "HttpOnly" in entered.headers["Set-Cookie"] and "SameSite=Strict" in entered.headers["Set-Cookie"]
    assert get(client, "/run/a/same", base_url="http://far:9").status_code == 403  # no cookie of that host
    assert get(client, "/run/a/same").status_code == 200


@pytest.mark.parametrize("names", [[], ["a/same"], ["a/same", "a/same"], [f"{n}" for n in range(9)]])
def test_a_comparison_takes_two_to_eight_runs(board, names):
    assert get(board(), "/compare", query_string={"run": names}).status_code == 400


def test_no_answer_is_kept_or_shown_in_a_frame(board):
    for path in ("/", "/run/a/same", "/nothing"):
        headers = get(board(), path).headers
        assert (headers["Cache-Control"], headers["X-Frame-Options"]) == ("no-store", "DENY")


def test_a_name_of_odd_letters_leads_to_its_run(board, logs):
    make_run(logs / "a b?#%2f&<i>", samples=False)
    client = board()
    links = [link["href"] or "" for link in Page(get(client, "/").text).attributes("a")]
    (odd,) = [link for link in links if "a%20b" in link]
    assert get(client, odd).status_code == 200
