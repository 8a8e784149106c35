"""`legal-rl ask` against a real application: progress, JSON, and one clear line when something is wrong."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from legal_rl.cli import main
from legal_rl.serving.client import AnswerClient, AskError
from legal_rl.serving.events import EventType

Serve = Callable[..., str]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def test_progress_in_the_terminal(serve: Serve, toys: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    url = serve(
        toys.Every(toys.search, toys.answer), judges={"j": toys.Judge("依据《刑法》第九百九十九条。")}, judge="j"
    )
    assert run("ask", "盗窃怎么量刑？", "--url", url) == 0
    shown = capsys.readouterr().out
    for text in (
        "缺条文",
        "search statute",
        "第二百六十四条",
        "the Lawyer's own answer",
        "does not exist",
        "1 search,",
    ):
        assert text in shown


def test_json_for_scripts(serve: Serve, toys: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    url = serve(toys.Every(toys.search, toys.answer))
    assert run("ask", "盗窃怎么量刑？", "--url", url, "--as-of", "2024-05-01", "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert body["citations"][0]["status"] == "verified" and body["trajectory"]["question"]["as_of"] == "2024-05-01"


def test_what_goes_wrong_is_one_line(serve: Serve, toys: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert run("ask", "问", "--url", nobody) == 1
    assert "nothing answers at" in capsys.readouterr().err
    url = serve(toys.Every(toys.search, toys.answer), knowledge=toys.Broken(None))
    assert run("ask", "问", "--url", url) == 1
    assert "HTTP 503: the knowledge base cannot be searched" in capsys.readouterr().err
    assert run("ask", "问", "--url", url, "--as-of", "昨天") == 1
    assert "as_of must be a day such as" in capsys.readouterr().err
    assert run("ask", "问", "--url", "ftp://x") == 1


def test_an_error_in_the_middle_is_told(
    serve: Serve, toys: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    url = serve(toys.Every(toys.search, toys.answer), judges={"j": toys.Judge("!")}, judge="j")
    assert run("ask", "问", "--url", url) == 1
    assert "judge_unavailable" in capsys.readouterr().err


def test_a_stream_that_breaks_off_is_no_answer() -> None:
    import threading

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def half() -> None:
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            b'event: start\r\ndata: {"id": "1"}\r\n\r\n'
        )
        connection.close()

    threading.Thread(target=half, daemon=True).start()
    client = AnswerClient(f"http://127.0.0.1:{listener.getsockname()[1]}")
    events = client.events("问")
    assert next(events).type is EventType.START
    with pytest.raises(AskError, match="broke off"):
        next(events)
    listener.close()
