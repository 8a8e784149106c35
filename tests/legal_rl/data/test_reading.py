"""The teacher's eyes: evidence units out of rendered messages, in both styles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from legal_rl.data.reading import environment_units, overlap, read_units

BLOCK = (
    "<information>\n[1] law/刑法@x#264 《刑法》第二百六十四条\n盗窃公私财物，\n数额较大的\n"
    "[2]《民法典》第十条\n处理民事纠纷\n</information>"
)


def test_units_with_and_without_an_id() -> None:
    first, second = read_units(BLOCK)
    assert (first.number, first.id, first.heading) == (1, "law/刑法@x#264", "《刑法》第二百六十四条")
    assert first.text == "盗窃公私财物，\n数额较大的"
    assert (second.number, second.id, second.law, second.label) == (2, "", "民法典", "第十条")


def test_only_the_environment_writes_evidence() -> None:
    said = [{"role": role, "content": BLOCK} for role in ("system", "user", "assistant")]
    assert environment_units(said) == []
    assert len(environment_units([*said, {"role": "tool", "content": BLOCK}])) == 2


def test_overlap_counts_bigrams() -> None:
    assert overlap("盗窃财物", "盗窃公私财物") == 2 / 3
    assert overlap("盗", "盗窃") == 0.0


@given(st.text(max_size=200))
def test_any_message_is_read_without_an_error(text: str) -> None:
    read_units(text)
    read_units(f"<information>\n{text}\n</information>")
