"""One progress bar per stage; plain lines now and then where the output is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_EVERY_S = 15.0


@contextmanager
def bar(title: str, unit: str = "") -> Iterator[Callable[[str, int, int], None]]:
    """Yields `update(text, done, total)`."""
    console = Console()
    if not console.is_terminal:
        yield _lines(title, unit)
        return
    columns = (
        TextColumn("[cyan]{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=None, unit=unit)
        yield lambda text, done, total: progress.update(
            task, description=f"{title} {text}", completed=done, total=total or None
        )


def _lines(title: str, unit: str) -> Callable[[str, int, int], None]:
    last = [0.0]

    def update(text: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - last[0] >= LINE_EVERY_S or done == total:
            last[0] = now
            print(f"  {title} {text}: {done}/{total} {unit}".rstrip(), flush=True)

    return update
