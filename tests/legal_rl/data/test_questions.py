"""The question sets over the real corpus: answers in their evidence, no leak between parts, the same bytes twice."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envs.records import question_to_dict
from envs.types import Question
from legal_rl.data.families.direct import months_of, solve, term_text
from legal_rl.data.questions import QuestionSets, build_questions
from legal_rl.data.settings import FAMILIES, QuestionSettings
from legal_rl.data.splits import CRIMINAL_LAW
from legal_rl.data.wording import TemplateError, check_templates, question_templates
from retrieval_server.briefs import compact_brief
from retrieval_server.index import LegalIndex
from rewards.graders import grade

# tests/ has no packages, so a fixture module cannot be imported: its settings are read from the sets' sizes.
SIZES = {"train": 24, "grpo": 6, "dev": 4, "test": 12}
SCRIPT = """
import hashlib, json
from pathlib import Path
from legal_rl.data.questions import build_questions
from legal_rl.data.settings import QuestionSettings
from envs.records import question_to_dict
from retrieval_server.types import Article, Case
lines = Path(__import__("sys").argv[1]).read_text(encoding="utf-8").splitlines()
rows = [json.loads(line) for line in lines]
articles = [Article(**r["article"]) for r in rows if "article" in r]
cases = [Case(**r["case"]) for r in rows if "case" in r]
settings = QuestionSettings(train_per_family=24, grpo_per_family=6, dev_per_family=4, test_per_family=12)
s = build_questions(articles, cases, settings)
text = json.dumps([question_to_dict(q) for q in (*s.train, *s.grpo, *s.dev, *s.test)], ensure_ascii=False)
print(hashlib.sha256(text.encode()).hexdigest())
"""


def _all(sets: QuestionSets) -> tuple[Question, ...]:
    return (*sets.train, *sets.grpo, *sets.dev, *sets.test)


def test_every_family_is_there_in_its_size(sets: QuestionSets) -> None:
    assert sets.counts() == {name: dict.fromkeys(sorted(FAMILIES), size) for name, size in SIZES.items()}


def test_ids_and_texts_are_unique(sets: QuestionSets) -> None:
    questions = _all(sets)
    assert len({q.id for q in questions}) == len(questions)
    assert not {q.text for q in (*sets.train, *sets.grpo)} & {q.text for q in (*sets.dev, *sets.test)}
    assert not {q.text for q in sets.train} & {q.text for q in sets.grpo}


def test_no_law_article_or_case_is_in_two_parts(sets: QuestionSets) -> None:
    parts = [(*sets.train, *sets.grpo), sets.dev, sets.test]
    evidence = [{e for q in part if q.reference for e in q.reference.evidence_ids} for part in parts]
    laws = [{q.metadata["law"] for q in part if "law" in q.metadata} - {CRIMINAL_LAW} for part in parts]
    for groups in (evidence, laws):
        assert all(groups) and not (groups[0] & groups[1] | groups[0] & groups[2] | groups[1] & groups[2])


def test_every_answer_stands_in_the_visible_part_of_its_evidence(sets: QuestionSets, index: LegalIndex) -> None:
    shown = {a.id: f"{a.law_key}{a.article_label} {a.text[:78]}" for a in index.articles}
    shown |= {case.id: compact_brief(case) for case in index.cases}
    for question in _all(sets):
        if question.family == "no_retrieval":
            assert solve(question) == question.answer
            continue
        assert question.reference is not None
        evidence = [shown[name] for name in question.reference.evidence_ids]
        wanted = question.answer
        if question.family == "multiple_choice":
            wanted = question.metadata["options"].split("|")["ABCD".index(question.answer)]
        assert any(wanted in text for text in evidence), question
        assert len(question.answer) <= 24


def test_quoted_passages_stand_in_one_article_only(sets: QuestionSets, index: LegalIndex) -> None:
    current = [a for a in index.articles if a.in_force_until is None]
    for question in sets.test:
        passage = question.metadata.get("original") or question.metadata.get("snippet")
        if passage:
            assert {a.law_key + a.article_label for a in current if passage in a.text} == {
                question.metadata["law"] + question.metadata["label"]
            }


def test_compared_courts_have_one_case_of_the_charge(sets: QuestionSets, index: LegalIndex) -> None:
    for question in (q for q in _all(sets) if q.family == "compare_precedents"):
        for court in {question.metadata["court_a"], question.metadata["court_b"]}:
            assert sum(c.court == court and question.metadata["charge"] in c.charges for c in index.cases) == 1


def test_graders_accept_the_reference_answers(sets: QuestionSets) -> None:
    assert {grade(q.grader, q.answer, q.answer) for q in _all(sets)} == {1.0}


def test_the_same_bytes_under_another_hash_seed(sets: QuestionSets, index: LegalIndex, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    rows = [{"article": a.model_dump(mode="json")} for a in index.articles]
    rows += [{"case": c.model_dump(mode="json")} for c in index.cases]
    corpus.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    text = json.dumps([question_to_dict(q) for q in _all(sets)], ensure_ascii=False)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(corpus)],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() == hashlib.sha256(text.encode()).hexdigest()


def test_templates_fill_and_are_many_enough() -> None:
    for wordings in question_templates().values():
        assert len(set(wordings)) >= 4
    with pytest.raises(TemplateError, match=r"x\.yaml: recite has 1"):
        check_templates({"recite": ["{law}是什么？"]}, "x.yaml")
    with pytest.raises(TemplateError, match="different placeholders"):
        check_templates({"recite": ["{law}一", "{law}二", "{law}三", "{label}四"]}, "x.yaml")


def test_no_question_has_an_unfilled_placeholder(sets: QuestionSets) -> None:
    assert not [q for q in _all(sets) if "{" in q.text or "}" in q.text]


def test_terms_in_words_and_months() -> None:
    assert [term_text(n) for n in (8, 30, 36)] == ["八个月", "二年六个月", "三年"]
    assert all(months_of(term_text(n)) == n for n in range(1, 181))


def test_a_corpus_without_cases_has_no_precedent_questions(index: LegalIndex) -> None:
    settings = QuestionSettings(train_per_family=3, grpo_per_family=0, dev_per_family=0, test_per_family=0)
    assert "compare_precedents" not in build_questions(index.articles, [], settings).counts()["train"]
