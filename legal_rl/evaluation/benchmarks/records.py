"""What passes between the parts of a benchmark evaluation: one small frozen record per stage.

One sample in miniature::

    Example(prediction="有期徒刑一年六个月", reference="刑期:18个月", source="")
    -> upstream: Grade(score=0.8142, extracted="6")        # LawBench reads the months and drops the years
    -> fixed:    Grade(score=1.0, extracted="18")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from legal_rl.errors import LegalRLError

Mode = Literal["upstream", "fixed"]
"""`upstream` gives the numbers of the benchmarks' own scorers, mistakes included; `fixed` mends the plain mistakes."""


class BenchmarkError(LegalRLError):
    """A benchmark's task, data or prediction file cannot be used; the text names file, record and field."""


class NotApplicableError(BenchmarkError):
    """A mode has nothing to do with a sample, such as an oracle without gold: neither an answer nor a failure."""


class ReferenceFormatError(BenchmarkError):
    """A reference answer does not have the form that its grader needs.

    `upstream` is the name of the exception that the benchmark's own scorer ends with on this reference.
    """

    def __init__(self, text: str, upstream: str) -> None:
        super().__init__(text, upstream)  # Both arguments, so that it can be pickled on its way out of a worker.
        self.upstream = upstream

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Example:
    """One prediction with its reference; `source` is the sentence to correct (LawBench 2-1 only)."""

    prediction: str
    reference: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Grade:
    """What a grader makes of one example."""

    score: float
    """Usually in [0, 1]; LawBench's sentence terms can be negative in the upstream mode."""
    abstained: bool = False
    """Nothing was extracted; the score is 0 in itself."""
    counted: bool = True
    """False where the benchmark leaves the example out of the mean (the abstention rate still counts it)."""
    extracted: str = ""
    """What was read from the prediction, for the reader of a sample page."""
    f1: float | None = None
    """LexEval's second metric of choice tasks."""
    edits: tuple[int, int, int] | None = None
    """Hits, false alarms and misses of a correction; the benchmark adds them up over the corpus."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One row of the task table."""

    benchmark: str
    id: str
    name: str
    domain: str
    """The benchmark's own heading, such as 记忆."""
    category: str
    """Category of the paper's figures: Knowledge, Understanding, Reasoning, Generation or Consultation."""
    metric: str
    grader: str
    max_tokens: int
    judged: bool
    """True where the LLM judge gives a second, separate score."""
    labels: str = ""
    """Name of a list in `labels.yaml`."""
    options: str = ""
    """Option letters of a choice task."""
    reference_prefix: str = ""
    """Lead-in of the reference, such as 正确答案：."""
    prompt: str = "judge_answer"
    """The Judge's prompt for this task, a file in `envs/prompts`."""

    @property
    def key(self) -> str:
        """Such as `lawbench/3-4`."""
        return f"{self.benchmark}/{self.id}"
