"""How the teacher reads: the evidence units in the environment's messages, exactly as the Lawyer sees them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from envs.rendering import CLOSE, OPEN

_HEAD = re.compile(r"^\[(?P<number>\d+)\](?: (?P<id>\S+) )?《(?P<title>[^》]+(?:》[^《》\n]*?)?)》(?P<label>[^\s（]*)")
_BLOCK = re.compile(re.escape(OPEN) + r"\n(.*?)\n" + re.escape(CLOSE), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Unit:
    """One evidence unit as rendered: text may end in an ellipsis where it was clipped."""

    number: int
    id: str
    title: str
    label: str
    text: str

    @property
    def heading(self) -> str:
        """Title and label as rendered: 《刑法》第二百六十四条."""
        return f"《{self.title}》{self.label}"

    @property
    def law(self) -> str:
        """Title without 中华人民共和国."""
        return self.title.removeprefix("中华人民共和国")


def read_units(message: str) -> list[Unit]:
    """All units of the information blocks in one environment message, in order; [] when nothing was found."""
    units: list[Unit] = []
    for block in _BLOCK.findall(message):
        head, lines = None, []
        for line in [*block.split("\n"), None]:
            match = _HEAD.match(line) if line is not None else None
            if (match or line is None) and head is not None:
                number, name = int(head["number"]), head["id"] or ""
                units.append(Unit(number, name, head["title"], head["label"], "\n".join(lines)))
            if match:
                head, lines = match, []
            elif line is not None:
                lines.append(line)
    return units


def environment_units(messages: Iterable[dict[str, str]]) -> list[Unit]:
    """Units of every message that the environment wrote (role `tool`); the policy's own text is never evidence."""
    return [unit for message in messages if message["role"] == "tool" for unit in read_units(message["content"])]


def overlap(piece: str, text: str) -> float:
    """Share of the piece's character bigrams that stand in the text."""
    grams = {piece[i : i + 2] for i in range(len(piece) - 1)}
    return sum(gram in text for gram in grams) / len(grams) if grams else 0.0
