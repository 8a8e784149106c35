"""One spelling for answers: hand-written pairs and idempotence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.text import items, normalise, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("答：《刑法》 第二百六十四条。", "刑法第264条"),
        ("正确答案是：Ｂ", "b"),
        ("第一百三十三条之一", "第133条之1"),
        ("三年以上十年以下有期徒刑", "3年以上10年以下有期徒刑"),
        ("罚金１.５万元", "罚金1.5万元"),
        ("50%", "50%"),
        ("十月怀胎", "10月怀胎"),
        ("", ""),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    assert normalise(text) == expected


@given(st.text())
def test_normalise_is_idempotent(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(st.text(alphabet="答案正确是为:：。. 第一二百条之年0123ⅣA１"))
def test_normalise_is_idempotent_on_answer_like_text(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def test_items() -> None:
    assert items("盗窃罪、诈骗罪；抢劫罪\n") == {"盗窃罪", "诈骗罪", "抢劫罪"}
    assert items("盗窃罪和诈骗罪") == {"盗窃罪", "诈骗罪"}
    assert items("、 ，") == frozenset()


def test_words_are_segmented_chinese() -> None:
    assert words("盗窃 公私财物") == ("盗窃", "公私", "财物")
