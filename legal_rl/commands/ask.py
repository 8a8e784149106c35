"""`legal-rl ask`: one question to a running application, with what the Lawyer does as it happens."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from legal_rl.commands.shared import JsonOption, console, errors, print_json


def ask(
    question: Annotated[str, typer.Argument(help="The question; `-` reads it from standard input.")],
    url: Annotated[
        str, typer.Option("--url", help="A running application.", envvar="LEGAL_RL_URL")
    ] = "http://127.0.0.1:8080",
    judge: Annotated[str | None, typer.Option("--judge", help="Who writes the answer; see /v1/settings.")] = None,
    as_of: Annotated[str | None, typer.Option("--as-of", help="Day of the facts, such as 2019-06-01.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Ask the Judge again after a false citation.")] = False,
    max_turns: Annotated[int | None, typer.Option("--max-turns", min=1, help="Turns of the Lawyer.")] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds for the whole answer.")] = 300.0,
    as_json: JsonOption = False,
) -> None:
    """Ask the served Lawyer and watch it think, search and stop. The key comes from LEGAL_RL_API_KEY.

    Examples:

      legal-rl ask "入户盗窃三千元怎么量刑？"

      legal-rl ask "《刑法》第二百六十四条的内容是什么？" --as-of 2015-01-01 --json
    """
    import sys

    from legal_rl.serving.client import AnswerClient
    from legal_rl.serving.terminal import show

    text = sys.stdin.read() if question == "-" else question
    client = AnswerClient(url, os.environ.get("LEGAL_RL_API_KEY", ""), timeout)
    wishes = {"judge": judge, "as_of": as_of, "strict": strict or None, "max_turns": max_turns}
    if as_json:
        print_json(client.answer(text, **wishes))
        return
    if not show(client.events(text, **wishes), console, errors):
        raise typer.Exit(1)
