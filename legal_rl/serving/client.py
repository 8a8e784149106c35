"""A small client of the application: whole answers, or events as they happen. Light: httpx only.

client = AnswerClient("http://127.0.0.1:8080")
client.answer("…")["answer"];   for event in client.events("…"): ...
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import httpx_sse

from legal_rl.errors import LegalRLError
from legal_rl.serving.events import Event, EventType
from retrieval_server.chat import is_local

CONNECT_S = 5.0
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class AskError(LegalRLError):
    """The application could not be asked, or refused; the text says why."""


class AnswerClient:
    """Asks one application.

    Args:
        key: API key; empty = none.
        timeout_s: of one whole answer; the application is told, so that it stops too.

    Raises (from `answer` and `events`):
        AskError: no connection, a refusal, or an unreadable answer.
    """

    def __init__(self, url: str, key: str = "", timeout_s: float = 300.0) -> None:
        self.url, self.timeout_s = url.rstrip("/"), timeout_s
        if not self.url.startswith(("http://", "https://")):
            raise AskError(f"the address must start with http:// or https://: {url!r}")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def answer(self, question: str, **wishes: Any) -> dict[str, Any]:
        """The whole answer, as `POST /v1/answers` gives it. `wishes`: judge, strict, as_of, max_turns."""
        with self._http() as http, self._explained():
            response = http.post("/v1/answers", json=self._body(question, False, wishes))
            _check(response)
            return response.json()

    def events(self, question: str, **wishes: Any) -> Iterator[Event]:
        """Events as they happen; an `error` event is one of them."""
        with (
            self._http() as http,
            self._explained(),
            httpx_sse.connect_sse(http, "POST", "/v1/answers", json=self._body(question, True, wishes)) as source,
        ):
            if source.response.status_code != 200:
                source.response.read()
            _check(source.response)
            ended = False
            for message in source.iter_sse():
                event = Event(EventType(message.event), json.loads(message.data))
                ended = event.type in (EventType.DONE, EventType.ERROR)
                yield event
            if not ended:
                raise AskError(f"{self.url} broke off in the middle of an answer")

    def _body(self, question: str, stream: bool, wishes: dict[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in wishes.items() if value is not None}
        if (day := given.get("as_of")) and not _DATE.fullmatch(str(day)):
            raise AskError(f"as_of must be a day such as 2019-06-01, is {day!r}")
        return {"question": question, "stream": stream, "deadline_s": self.timeout_s, **given}

    def _http(self) -> httpx.Client:
        limits = httpx.Timeout(self.timeout_s, connect=CONNECT_S)
        return httpx.Client(base_url=self.url, headers=self._headers, timeout=limits, trust_env=not is_local(self.url))

    def _explained(self) -> _Explained:
        return _Explained(self.url)


class _Explained:
    """Turns what httpx raises into one line."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            raise AskError(
                f"nothing answers at {self.url}; start it with: legal-rl serve app --config serve_cpu"
            ) from error
        if isinstance(error, httpx.HTTPError | httpx_sse.SSEError | httpx.InvalidURL | ValueError):
            raise AskError(f"{self.url}: {type(error).__name__}: {' '.join(str(error).split())[:200]}") from error


def _check(response: httpx.Response) -> None:
    if response.status_code == 200:
        return
    try:
        said = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        said = response.text[:200]
    raise AskError(f"HTTP {response.status_code}: {said}")
