"""Graders by task type: one pure function (task, example, mode) -> Grade each, found by the name in the task table.

grade_example(find_task("lawbench", "3-4"), Example("有期徒刑一年六个月", "刑期:18个月")).score == 0.8142…
grade_example(find_task("lawbench", "3-4"), Example("有期徒刑一年六个月", "刑期:18个月"), "fixed").score == 1.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from legal_rl.evaluation.benchmarks import extraction, mended
from legal_rl.evaluation.benchmarks.corrections import compare_correction, f_half, without_chat_end
from legal_rl.evaluation.benchmarks.overlap import (
    aligned_f1,
    character_f1,
    harmonic,
    lawbench_rouge,
    lexeval_rouge,
    plain_rouge,
    split_items,
)
from legal_rl.evaluation.benchmarks.records import Example, Grade, Mode, ReferenceFormatError, Task
from legal_rl.evaluation.benchmarks.tasks import load_labels

TERM_SCALE = math.log(216)
"""Normaliser of LawBench's log distance, and the distance of an abstention."""
SLOT_EPSILON = 1e-10
SKIPPED_FOCUS = "赔偿"
"""A label of older references of 2-2 that the scorer leaves out."""
MAX_ARTICLE = 490
RECURSION_NOTE = "recursion limit"
_CAPITAL = ("死刑", "无期")

Grader = Callable[[Task, Example, Mode], Grade]


def grade_example(task: Task, example: Example, mode: Mode = "upstream") -> Grade:
    """Grade one prediction.

    Raises:
        ReferenceFormatError: the reference has not the form that the grader needs (the upstream scorer fails as well).
    """
    return GRADERS[task.grader](task, example, mode)


def letter(task: Task, example: Example, mode: Mode) -> Grade:
    """LawBench's single choice: 1 for the right letter and no other."""
    options = task.options
    if mode == "fixed":
        said = sorted(mended.option_letters(example.prediction, options))
        meant = sorted(mended.option_letters(_reference(task, example, strict=False), options))
    else:
        said = extraction.letters_in(example.prediction, options)
        meant = list(_reference(task, example)[:1])
    return Grade(float(bool(said) and said == meant), abstained=not said, extracted="".join(said))


def letters(task: Task, example: Example, mode: Mode) -> Grade:
    """LexEval's choice: the letters must equal the answer; the second metric is F1 of the two sets."""
    if mode == "fixed":
        said = "".join(sorted(mended.option_letters(example.prediction, "ABCDE")))
        meant = "".join(sorted(example.reference.strip()))
    else:
        said, meant = extraction.choice_string(example.prediction), example.reference
    return Grade(float(said == meant), abstained=not said, extracted=said, f1=_set_f1(set(said), set(meant)))


def one_label(task: Task, example: Example, mode: Mode) -> Grade:
    """One of several labels: 1 for the right one and no other."""
    meant = _reference(task, example, strict=mode == "upstream").removesuffix("。")
    known = load_labels(task.labels)
    if mode == "upstream" and meant == SKIPPED_FOCUS:
        return Grade(0.0, counted=False, note="the scorer leaves this label out")
    if mode == "upstream" and meant not in known:
        raise ReferenceFormatError(f"{task.key}: {meant!r} is not one of the labels", "KeyError")
    said = _labels(task, example.prediction, mode, (*known, meant))
    return Grade(float(said == {meant}), abstained=not said, extracted="、".join(sorted(said)))


def label_set(task: Task, example: Example, mode: Mode) -> Grade:
    """Several labels without order: F1 of the two sets."""
    meant = _reference(task, example, strict=mode == "upstream").removesuffix("。")
    expected = set(meant.split("、" if task.labels == "marriage" else ";"))
    known = load_labels(task.labels)
    if mode == "fixed" and task.labels == "charges":
        known = (*known, *load_labels("charges_missing_upstream"))
    said = _labels(task, example.prediction, mode, known)
    return Grade(_set_f1(said, expected), abstained=not said, extracted="；".join(sorted(said)))


def span(task: Task, example: Example, mode: Mode) -> Grade:
    """Reading comprehension: F1 over characters."""
    prediction = example.prediction
    if mode == "fixed":
        prediction = prediction.strip().removeprefix("回答:").removeprefix("回答：")
    reference = example.reference.replace(task.reference_prefix, "")
    return Grade(character_f1(prediction, reference))


def slots(task: Task, example: Example, mode: Mode) -> Grade:
    """Named entities as `type:value`: character F1 of each type, precision over said types, recall over meant ones."""
    names = load_labels(task.labels)
    meant = _reference_slots(task, example, mode)
    said = (mended if mode == "fixed" else extraction).slots(example.prediction, names)
    shown = ";".join(f"{name}:{value}" for name, value in said.items())
    if not meant:
        return Grade(float(not said), extracted=shown)
    if not said:
        return Grade(0.0, abstained=True)
    shared = sum(character_f1(said[name], value) for name, value in meant.items() if name in said)
    return Grade(harmonic(shared / len(said), shared / len(meant), SLOT_EPSILON), extracted=shown)


def triggers(task: Task, example: Example, mode: Mode) -> Grade:
    """Trigger words: pairs by position upstream; in the fixed mode each word may match anywhere, once."""
    meant = example.reference.split(";")
    if mode == "upstream":
        return Grade(aligned_f1(example.prediction.split(";"), meant, SLOT_EPSILON))
    said = split_items(example.prediction)
    score = mended.best_pairs(said, meant) if said else 0.0
    return Grade(score, abstained=not said, extracted="；".join(said))


def articles(task: Task, example: Example, mode: Mode) -> Grade:
    """Article numbers of the Criminal Law: F1 of the two sets."""
    reference = _reference(task, example, strict=mode == "upstream")
    meant = extraction.article_numbers(reference)
    if mode == "upstream" and any(number > MAX_ARTICLE for number in meant):
        raise ReferenceFormatError(f"{task.key}: the reference names an article above {MAX_ARTICLE}", "AssertionError")
    said = (mended if mode == "fixed" else extraction).article_numbers(example.prediction)
    shown = "、".join(map(str, sorted(said)))
    return Grade(_set_f1(said, meant), abstained=not said, extracted=shown)


def term(task: Task, example: Example, mode: Mode) -> Grade:
    """Prison term in months by log distance; references of death or life are left out, as upstream does."""
    reference = _reference(task, example, strict=mode == "upstream")
    if any(word in reference for word in _CAPITAL):
        return Grade(0.0, counted=False, note="death or life: not scored by the benchmark")
    meant = extraction.term_months(reference)
    if meant is None:
        raise ReferenceFormatError(f"{task.key}: no term in {example.reference!r}", "AssertionError")
    said = (mended if mode == "fixed" else extraction).term_months(example.prediction)
    if said is None:
        return Grade(0.0, abstained=True)
    score = 1.0 - abs(math.log(meant + 1) - math.log(said + 1)) / TERM_SCALE
    return Grade(max(score, 0.0) if mode == "fixed" else score, extracted=f"{said:g}")


def amount(task: Task, example: Example, mode: Mode) -> Grade:
    """Total amount of money: 1 if it is among the numbers read (upstream), or is the total stated (fixed)."""
    reference = _reference(task, example, strict=mode == "upstream")
    if mode == "upstream" and "万" in reference:
        raise ReferenceFormatError(f"{task.key}: 万 in the reference {example.reference!r}", "AssertionError")
    meant = mended.amounts(reference) if mode == "fixed" else extraction.amounts(reference)[:1]
    if not meant:
        raise ReferenceFormatError(f"{task.key}: no amount in {example.reference!r}", "AssertionError")
    said = mended.amounts(example.prediction) if mode == "fixed" else extraction.amounts(example.prediction)
    shown = "、".join(f"{value:g}" for value in said)
    return Grade(float(meant[0] in said), abstained=not said, extracted=shown)


def correction(task: Task, example: Example, mode: Mode) -> Grade:
    """Proofreading: edits of the sentence, F0.5 of this one example; a corpus adds the edits up."""
    source = without_chat_end(example.source) if mode == "fixed" else example.source
    edits = compare_correction(source, example.prediction, example.reference)
    return Grade(f_half(*edits), edits=edits)


def lawbench_rouge_l(task: Task, example: Example, mode: Mode) -> Grade:
    """LawBench's ROUGE-L; a label is removed from the reference only (upstream) or from both sides (fixed)."""
    prefix = task.reference_prefix
    reference = example.reference.replace(prefix, "") if prefix else example.reference
    if mode == "fixed":
        if not reference.strip():
            return Grade(0.0, counted=False, note="the reference is empty")
        prediction = example.prediction.strip().removeprefix(prefix).removeprefix(prefix.replace(":", "："))
        return Grade(plain_rouge(prediction, reference))
    try:
        return Grade(lawbench_rouge(example.prediction, reference))
    except ValueError as error:
        raise ReferenceFormatError(f"{task.key}: {error}", "ValueError") from None


def lexeval_rouge_l(task: Task, example: Example, mode: Mode) -> Grade:
    """LexEval's ROUGE-L over distinct words; texts beyond the recursion limit are 0 upstream."""
    blank = not example.prediction.strip()
    if mode == "fixed":
        return Grade(plain_rouge(example.prediction, example.reference, drop_signs=True), abstained=blank)
    score, too_deep = lexeval_rouge(example.prediction, example.reference)
    note = f"{RECURSION_NOTE}; {score:.17g} without it" if too_deep else ""
    return Grade(0.0 if too_deep else score, abstained=blank, note=note)


GRADERS: dict[str, Grader] = {
    "letter": letter,
    "letters": letters,
    "one_label": one_label,
    "label_set": label_set,
    "span": span,
    "slots": slots,
    "triggers": triggers,
    "articles": articles,
    "term": term,
    "amount": amount,
    "correction": correction,
    "lawbench_rouge": lawbench_rouge_l,
    "lexeval_rouge": lexeval_rouge_l,
}


def _reference(task: Task, example: Example, strict: bool = True) -> str:
    """The reference without its lead-in; a strict reader refuses one that lacks it."""
    prefix, text = task.reference_prefix, example.reference
    if text.startswith(prefix):
        return text[len(prefix) :]
    if strict:
        raise ReferenceFormatError(
            f"{task.key}: the reference {text[:40]!r} must begin with {prefix!r}", "AssertionError"
        )
    other = prefix.replace(":", "：") if ":" in prefix else prefix.replace("：", ":")
    return text.removeprefix(other)


def _reference_slots(task: Task, example: Example, mode: Mode) -> dict[str, str]:
    pairs = {}
    for item in example.reference.split(";") if example.reference else []:
        parts = item.split(":", 1) if mode == "fixed" else item.split(":")
        if len(parts) < 2:
            if mode == "fixed":
                continue
            raise ReferenceFormatError(f"{task.key}: item {item!r} of the reference has no value", "IndexError")
        pairs[parts[0]] = parts[1]
    return pairs


def _labels(task: Task, text: str, mode: Mode, known: Sequence[str]) -> set[str]:
    if mode == "fixed":
        return mended.labels_in(text, known, selective=task.labels == "charges")
    return set(extraction.labels_in(text, known))


def _set_f1(said: set, meant: set) -> float:
    shared = len(said & meant)
    return harmonic(shared / len(said), shared / len(meant)) if said and meant else 0.0
