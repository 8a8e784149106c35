"""Events of one question in a terminal: thoughts as they are written, searches, evidence, the cited answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from envs.rendering import COURT_NAMES, clip
from legal_rl.serving.events import Event, EventType

EVIDENCE_CHARS = 160
STATUS_MARKS = {
    "verified": "[green]✓ verified[/]",
    "not_retrieved": "[yellow]○ exists, not retrieved[/]",
    "not_in_force": "[red]✗ not in force[/]",
    "not_found": "[red]✗ does not exist[/]",
    "unresolved": "[yellow]? names no law[/]",
}


def show(events: Iterator[Event], console: Console, errors: Console) -> bool:
    """Print events as they come; False when the last one was an error."""
    view = _View(console)
    with console.status("[dim]asking…[/]") as status:
        for event in events:
            if event.type is EventType.ERROR:
                errors.print(f"[red]error:[/] {escape(event.data['message'])} [dim]({event.data['code']})[/]")
                return False
            view.event(event, status)
    return True


class _View:
    def __init__(self, console: Console) -> None:
        self.console, self.open_line, self.streamed = console, False, False

    def event(self, event: Event, status: Any) -> None:
        data = event.data
        match event.type:
            case EventType.THOUGHT:
                status.stop()
                self.piece(data["text"], "dim italic")
            case EventType.ANSWER_DELTA:
                status.stop()
                self.streamed = True
                self.piece(data["text"], "")
            case EventType.SEARCH:
                self.line()
                query = escape(str(data.get("query", "")))
                self.console.print(f"[bold cyan]search {data['source']}[/] {query} [dim]{escape(_wish(data))}[/]")
                status.update("[dim]searching…[/]")
                status.start()
            case EventType.EVIDENCE:
                status.stop()
                self.evidence(data)
                status.update("[dim]reading…[/]")
                status.start()
            case EventType.CORRECTION:
                self.line()
                self.console.print(f"[yellow]not readable:[/] {escape(data['reason'])}")
            case EventType.DRAFT:
                self.line()
                self.console.print(f"[dim]the Lawyer's own answer:[/] {escape(data['text'])}")
            case EventType.ANSWER:
                status.stop()
                self.line()
                self.console.print(Panel(escape(data["content"]), title="answer", title_align="left"))
            case EventType.CITATIONS:
                self.citations(data["citations"])
            case EventType.DONE:
                self.done(data)
            case _:
                pass

    def piece(self, text: str, style: str) -> None:
        self.console.print(escape(text), end="", style=style, highlight=False, soft_wrap=True)
        self.open_line = not text.endswith("\n")

    def line(self) -> None:
        if self.open_line:
            self.console.print()
            self.open_line = False

    def evidence(self, data: dict[str, Any]) -> None:
        for number, unit in enumerate(data["units"], start=1):
            court = COURT_NAMES.get(unit.get("court_level"), "")
            head = f"《{unit['title'].strip('《》')}》{unit.get('label', '')}"
            marks = " · ".join(filter(None, (unit.get("version_date", ""), court, _psi(unit))))
            self.console.print(f"  [green]{number}[/] {escape(head)} [dim]{escape(marks)}[/]", highlight=False)
            self.console.print(f"    [dim]{escape(clip(unit['text'], EVIDENCE_CHARS))}[/]", highlight=False)
        if not data["units"]:
            self.console.print("  [yellow]nothing found[/]")

    def citations(self, citations: list[dict[str, Any]]) -> None:
        for citation in citations:
            law = f"《{citation['law']}》" if citation["law"] else ""
            note = f" [dim]{escape(citation['note'])}[/]" if citation["note"] else ""
            name = escape(f"{law}{citation['label']}")
            self.console.print(f"  {STATUS_MARKS[citation['status']]} {name}{note}", highlight=False)

    def done(self, data: dict[str, Any]) -> None:
        usage, timings = data["usage"], data["timings"]
        plural = "" if data["searches"] == 1 else "es"
        self.console.print(
            f"[dim]{data['searches']} search{plural}, {usage['completion_tokens']} tokens written, "
            f"{usage['retrieval_tokens']} tokens of evidence, {timings['total_s']:.1f} s "
            f"({data['stop_reason'].replace('_', ' ')})[/]",
            highlight=False,
        )


def _wish(data: dict[str, Any]) -> str:
    return " · ".join(str(data[name]) for name in ("intent", "circumstances", "charge") if data.get(name))


def _psi(unit: dict[str, Any]) -> str:
    return f"PSI {unit['psi']:g}" if unit.get("psi") is not None else ""
