"""Reading exercises: what the tiny policy is pretrained on, made from statutes of the train part only.

A model of a few million parameters answers questions about laws it never saw only if it has learned to look things
up in its context: find the unit whose heading or text matches, then copy what stands beside it. Statute text alone
teaches that very late. An exercise shows a few made-up headings over real article texts, in the chat's and the
evidence's layout, and asks several short questions that only the context can answer. Headings are invented anew
each time, so there is nothing to memorise.

    <|im_start|>user\n…[1]《渔业法》第三十一条\n国家对渔业…<|im_end|>
    <|im_start|>assistant\n<think>《渔业法》第三十一条</think><answer>国家对渔业…</answer><|im_end|>
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retrieval_server.numerals import article_label

_CLAUSE = re.compile(r"[^，。；：、\s（）“”《》]+")
_SENTENCE = re.compile(r"[^。；\n“”《》（）]+")
_SUFFIXES = ("法", "法", "法", "条例", "规定", "办法", "保护法", "管理法")
_CARRIERS = (
    "{}", "查{}", "请看{}", "{}的内容", "根据{}", "问：{}？",
    "{}是怎样写的？", "请写出{}", "关于{}", "想知道{}说了什么", "请核对{}", "我需要{}的原文",
    "依据{}，结论是什么？", "{}有何规定？", "找出{}。", "材料里的{}怎么说？", "阅读{}并摘录",
)  # fmt: skip
_MARKS = "，。；：、“”《》（）…\n "
_MARKED_SHARE = 0.2
"""Share of units whose heading shows a machine id."""
_SAYS = ("", "", "写道", "规定", "的内容是", "：")
_LETTERS = "ABCD"


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of an exercise; `weight` is the loss weight of its tokens relative to a copied token."""

    text: str
    weight: float


@dataclass(frozen=True, slots=True)
class Unit:
    """One evidence unit under an invented heading."""

    law: str
    label: str
    text: str
    marker: str
    """Its machine id and the long form of its title, where the heading shows them."""

    @property
    def key(self) -> str:
        return self.law + self.label

    @property
    def title(self) -> str:
        """《title》label as the heading shows it."""
        return f"《{'中华人民共和国' if self.marker else ''}{self.law}》{self.label}"

    @property
    def heading(self) -> str:
        return f"{self.marker} {self.title}" if self.marker else self.title


Exercise = list[Segment]
_END = Segment("</answer><|im_end|>\n", 0.5)
_Question = Callable[["ExerciseMaker", Unit], "tuple[str, str, str] | None"]


class ExerciseMaker:
    """Makes exercises of growing length, deterministic in the seed.

    Args:
        texts: article texts of the train part.
        seed: of the random choices.
        words: what the tokenizer has a token for; nonsense made of them teaches to copy the rare like the frequent.
        nonsense_share: of the law names and repeated passages made of words drawn uniformly; evidence texts half of it.
        context_weight: loss weight of tokens that cannot be known from the context (statute text).
    """

    def __init__(
        self,
        texts: Sequence[str],
        seed: int,
        words: Sequence[str] = (),
        nonsense_share: float = 0.0,
        context_weight: float = 0.0,
    ) -> None:
        self.rng = random.Random(seed)
        self.texts = [text for text in texts if len(text) >= 16]
        if not self.texts:
            raise ValueError("no article text of 16 characters or more to make exercises from")
        self.nonsense_share = nonsense_share
        self.context_weight = context_weight
        self.progress = 0.0
        """Place in the curriculum, 0 (short and dense) to 1 (as long as in a rollout)."""
        self.names = self._law_names()
        self.words = [*words, *sorted(set("".join(self.texts)) - set(_MARKS))]

    def make(self) -> Exercise:
        """The next exercise for the present `progress`."""
        progress = self.progress
        if self.rng.random() < max(0.1, 0.6 - 1.2 * progress):
            return self._repetition(progress)
        return self._reading(progress)

    def _law_names(self) -> list[str]:
        """Plausible names of laws that do not exist: words of the texts with a suffix."""
        words = {m[0] for text in self.texts for m in _CLAUSE.finditer(text) if 2 <= len(m[0]) <= 6}
        return sorted(words) or ["示例"]

    def _law(self) -> str:
        name = self._nonsense(1, 3) if self.rng.random() < self.nonsense_share else self.rng.choice(self.names)
        return name + self.rng.choice(_SUFFIXES)

    def _nonsense(self, least: int, most: int) -> str:
        """Words drawn uniformly from the vocabulary, not by how often they occur."""
        return "".join(self.rng.choices(self.words, k=self.rng.randint(least, most)))

    def _label(self, near: int | None = None) -> tuple[int, str]:
        number = self.rng.randint(1, 320) if near is None else max(1, near + self.rng.randint(-12, 12))
        sub = self.rng.randint(1, 4) if self.rng.random() < 0.05 else 0
        return number, article_label(number, sub)

    def _units(self, count: int, chars: int) -> list[Unit]:
        """Units with different keys; half of the time neighbours in one law, as a real search returns them."""
        same, law, near = self.rng.random() < 0.5, self._law(), None
        units: dict[str, Unit] = {}
        while len(units) < count:
            law = law if same else self._law()
            number, label = self._label(near)
            near = number if same else None
            text = self._window(chars)
            marked = self.rng.random() < _MARKED_SHARE
            units[law + label] = Unit(law, label, text, self._marker(law, number) if marked else "")
        return list(units.values())

    def _marker(self, law: str, number: int) -> str:
        year, month, day = self.rng.randint(1990, 2025), self.rng.randint(1, 12), self.rng.randint(1, 31)
        return f"law/{law}@{year}-{month:02}-{day:02}#{number}"

    def _window(self, chars: int) -> str:
        if self.rng.random() < self.nonsense_share / 2:
            clauses = [self._nonsense(2, 8) for _ in range(self.rng.randint(2, 5))]
            text = "".join(clause + self.rng.choice(("，", "，", "。", "，处", "，但是")) for clause in clauses)
            return text if len(text) <= chars else text[: chars - 1] + "…"
        text = self.rng.choice(self.texts)
        if self.rng.random() < 0.3:
            starts = [m.end() for m in re.finditer(r"[。；\n]", text)][:-1]
            text = text[self.rng.choice(starts) :].strip() if starts else text
        return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"

    def _repetition(self, progress: float) -> Exercise:
        """A passage of shuffled clauses twice or three times: the plainest form of copying."""
        if self.rng.random() < self.nonsense_share:
            clauses = [self._nonsense(1, 6) for _ in range(12)]
        else:
            clauses = [m[0] for _ in range(3) for m in _CLAUSE.finditer(self.rng.choice(self.texts))]
        self.rng.shuffle(clauses)
        count = self.rng.randint(2, 4 + int(8 * progress))
        passage = "，".join(clauses[:count])
        exercise = [Segment(f"<|im_start|>user\n{passage}<|im_end|>\n", self.context_weight)]
        for _ in range(self.rng.randint(1, 2)):
            start = self.rng.randrange(min(count, len(clauses)))
            exercise.append(Segment("<|im_start|>assistant\n<answer>", 0.0))
            exercise.append(Segment("，".join(clauses[start:count]), 1.0))
            exercise.append(_END)
        return exercise

    def _reading(self, progress: float) -> Exercise:
        count = self.rng.randint(1, 2) if progress < 0.3 else self.rng.randint(2, 3)
        units = self._units(count, chars=int(24 + 56 * min(1.0, 1.5 * progress)))
        shown = "\n".join(f"[{i}]{' ' if u.marker else ''}{u.heading}\n{u.text}" for i, u in enumerate(units, 1))
        block = f"<tool_response>\n<information>\n{shown}\n</information>\n</tool_response>"
        evidence = Segment(f"<|im_start|>user\n{block}<|im_end|>\n", self.context_weight)
        wanted = [self.rng.choice(_QUESTIONS)(self, self.rng.choice(units)) for _ in range(self.rng.randint(3, 5))]
        exchanges = [self._exchange(*question) for question in wanted if question is not None]
        if exchanges and self.rng.random() < 0.6:
            # As in a rollout: the question comes first, then the evidence.
            (asked, *answered), *others = exchanges
            return [asked, evidence, *answered, *(segment for exchange in others for segment in exchange)]
        return [evidence, *(segment for exchange in exchanges for segment in exchange)]

    def _exchange(self, question: str, thought: str, answer: str) -> Exercise:
        return [
            Segment(f"<|im_start|>user\n{self.rng.choice(_CARRIERS).format(question)}<|im_end|>\n", 0.0),
            Segment("<|im_start|>assistant\n", 0.0),
            Segment(f"<think>{thought}</think><answer>", 0.5),
            Segment(answer, 1.0),
            _END,
        ]

    def _named(self, unit: Unit) -> str:
        """The unit's key as a question may write it."""
        return f"《{unit.law}》{unit.label}" if self.rng.random() < 0.35 else unit.key

    def first_clause(self, unit: Unit) -> tuple[str, str, str] | None:
        """Key -> first clause."""
        match = _CLAUSE.match(unit.text)
        if not match or unit.text.startswith(match[0] + "…"):
            return None
        named = self._named(unit)
        return named, unit.title if self.rng.random() < 0.7 else named + self.rng.choice(_SAYS), match[0]

    def heading(self, unit: Unit) -> tuple[str, str, str] | None:
        """Clause -> key."""
        clauses = [m[0] for m in _CLAUSE.finditer(unit.text) if len(m[0]) >= 4]
        if not clauses:
            return None
        clause = self.rng.choice(clauses)
        return f"“{clause}”", unit.title, unit.key

    def following(self, unit: Unit) -> tuple[str, str, str] | None:
        """Clause -> the one after it."""
        clauses = [m[0] for m in _CLAUSE.finditer(unit.text.removesuffix("…"))]
        if len(clauses) < 3:
            return None
        i = self.rng.randrange(len(clauses) - 2)
        return f"“{clauses[i]}”之后", clauses[i], clauses[i + 1]

    def marked(self, unit: Unit) -> tuple[str, str, str] | None:
        """Key or clause, and a mark such as 但是 or 处 -> what follows that mark."""
        places = re.findall(
            r"([^，。；…\n]{2,})，(处|但是?|应当|可以|不得|由)([^，。；…\n]{3,40})(?=[，。；])", unit.text
        )
        if not places:
            return None
        before, mark, answer = self.rng.choice(places)
        asked = f"{self._named(unit)}“{mark}”" if self.rng.random() < 0.5 else f"“{before}”{mark}"
        return asked, f"{before}，{mark}", answer

    def letter(self, unit: Unit) -> tuple[str, str, str] | None:
        """Lettered options -> the letter of the one that is asked for."""
        options = [self._label()[1] for _ in range(4)] if self.rng.random() < 0.5 else [self._law() for _ in range(4)]
        wanted = self.rng.randrange(4)
        options[wanted] = unit.label if options[0].startswith("第") else unit.law
        if len(set(options)) < 4:
            return None
        last = self.rng.random() < 0.5
        items = [f"{o}（{c}）" if last else f"{c}.{o}" for o, c in zip(options, _LETTERS, strict=True)]
        clauses = _CLAUSE.findall(unit.text.removesuffix("…"))
        return f"{'；'.join(items)}。“{self.rng.choice(clauses)}”", items[wanted], _LETTERS[wanted]


_QUESTIONS: tuple[_Question, ...] = (
    ExerciseMaker.first_clause,
    ExerciseMaker.first_clause,
    ExerciseMaker.heading,
    ExerciseMaker.heading,
    ExerciseMaker.following,
    ExerciseMaker.marked,
    ExerciseMaker.letter,
)
