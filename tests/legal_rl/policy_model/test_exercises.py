"""Reading exercises: answerable from their own context, deterministic, made of the given texts only."""

from __future__ import annotations

import re

import pytest

from legal_rl.data.splits import split_of_article, training_texts
from legal_rl.policy_model.exercises import ExerciseMaker
from retrieval_server.numerals import article_label
from retrieval_server.types import Article

ANSWER = re.compile(r"<answer>(.*?)</answer>")


def _make(texts: list[str], seed: int, count: int, progress: float) -> list[str]:
    maker = _maker(texts, seed, progress)
    return ["".join(segment.text for segment in maker.make()) for _ in range(count)]


def _maker(texts: list[str], seed: int, progress: float) -> ExerciseMaker:
    maker = ExerciseMaker(texts, seed)
    maker.progress = progress
    return maker


def test_same_seed_same_exercises_other_seed_others(texts):
    assert _make(texts, 1, 20, 0.5) == _make(texts, 1, 20, 0.5)
    assert _make(texts, 1, 20, 0.5) != _make(texts, 2, 20, 0.5)


@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_every_answer_stands_in_its_context(texts, progress):
    for exercise in _make(texts, 3, 200, progress):
        for match in ANSWER.finditer(exercise):
            assert match[1] and match[1] in exercise[: match.start()].replace("《中华人民共和国", "").replace("》", "")


def test_clauses_come_from_the_texts_only(texts):
    held_out = "核动力船舶的乘客应当佩戴绿色徽章"
    joined = "".join(_make(texts, 4, 300, 0.7))
    assert held_out not in joined
    evidence = re.findall(r"》第[^\n]*条(?:之.)?\n([^\n…]{6,})", joined)
    assert evidence and all(any(line in text for text in texts) for line in evidence)


def test_nonsense_shows_rare_words_and_answers_still_stand_in_their_context(texts):
    words = ["罕", "稀见", "鲜用"]
    maker = ExerciseMaker(texts, 8, words, nonsense_share=1.0)
    made = []
    for progress in (0.0, 0.5, 1.0):
        maker.progress = progress
        made += ["".join(segment.text for segment in maker.make()) for _ in range(60)]
    assert all(sum(word in exercise for exercise in made) >= 5 for word in words)
    for exercise in made:
        for match in ANSWER.finditer(exercise):
            assert match[1] and match[1] in exercise[: match.start()].replace("《中华人民共和国", "").replace("》", "")


def test_copied_text_weighs_most_and_evidence_nothing(texts):
    maker = _maker(texts, 5, 0.9)
    segments = [segment for _ in range(50) for segment in maker.make()]
    assert all(segment.weight == 0 for segment in segments if "<information>" in segment.text)
    assert max(segment.weight for segment in segments) == 1.0


def test_exercises_grow_with_progress(texts):
    short, long = (sum(map(len, _make(texts, 6, 100, progress))) for progress in (0.0, 1.0))
    assert long > 1.3 * short


def test_refuses_texts_that_are_too_short():
    with pytest.raises(ValueError, match="16 characters"):
        ExerciseMaker(["短"], 0)


def test_no_text_of_a_held_out_article_reaches_the_exercises():
    articles = [
        _article(law, number) for law in ("渔业法", "广告法", "档案法", "种子法", "海关法") for number in range(1, 9)
    ]
    articles += [_article("刑法", number) for number in range(1, 40)]
    held_out = [article for article in articles if split_of_article(article) != "train"]
    assert held_out and len(held_out) < len(articles)
    joined = "".join(_make(list(training_texts(articles)), 7, 400, 1.0))
    assert not any(article.text[:12] in joined for article in held_out)


def _article(law: str, number: int) -> Article:
    label = article_label(number)
    text = f"{law[:-1]}事务{label.replace('第', '其').replace('条', '项')}由主管部门负责，应当公开办理，并且接受监督。"
    return Article(
        id=f"law/{law}#{number}", kind="law", law_title=f"中华人民共和国{law}", law_key=law, version_date="2020-01-01",
        effective_date="2020-01-01", in_force_until=None, chapter="", section="", article_no=number, article_sub=0,
        article_label=label, text=text,
    )  # fmt: skip
