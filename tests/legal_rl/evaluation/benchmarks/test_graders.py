"""Own small cases of every grader, both modes, with numbers worked by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legal_rl.evaluation.benchmarks.graders import GRADERS, grade_example
from legal_rl.evaluation.benchmarks.mended import amounts, option_letters, term_months
from legal_rl.evaluation.benchmarks.records import Example, ReferenceFormatError
from legal_rl.evaluation.benchmarks.tasks import BENCHMARKS, CATEGORIES, find_task, load_labels, load_tasks


def points(task: str, prediction: str, reference: str, mode: str = "upstream", source: str = "") -> float:
    benchmark = "lexeval" if "_" in task else "lawbench"
    return grade_example(find_task(benchmark, task), Example(prediction, reference, source), mode).score  # type: ignore[arg-type]


def distance(said: float, meant: float) -> float:
    return 1 - abs(math.log(said + 1) - math.log(meant + 1)) / math.log(216)


# task, prediction, reference, upstream, fixed
CASES = [
    ("1-2", "经分析应选C", "正确答案：C。", 1, 1),
    ("1-2", "ｃ", "正确答案：C。", 0, 1),
    ("1-2", "按WTO规则，选B；不是A", "正确答案：B。", 0, 1),
    ("2-8", "[正确答案]D<eoa>，AB均无关", "[正确答案]D<eoa>", 0, 1),
    ("2-2", "本案涉及违约责任承担问题", "争议焦点类别：违约。", 0, 0),
    ("2-2", "[争议焦点]合同效力<eoa>", "争议焦点类别：合同效力。", 1, 1),
    ("2-4", "属于劳动纠纷", "劳动纠纷", 1, 1),
    ("2-3", "支付抚养费、准予离婚", "类别:准予离婚。", 2 / 3, 2 / 3),
    ("2-3", "按月给付抚养费", "类别:按月给付抚养费。", 1, 1),
    ("2-5", "答：李某", "回答:李某", 0.8, 0.8),
    ("2-6", "受害人:赵某;地点:车站", "受害人:赵某;地点:车站", 0.75, 1),
    ("2-6", "时间:9:15", "时间:9:15", 0.5, 1),
    ("2-9", "伪造；受伤", "受伤;伪造", 1, 1),
    ("2-10", "毒打;抢走", "抢走;毒打", 0, 1),
    ("3-1", "刑法第二百三十四条第二款", "法条:刑法第234条", 0, 1),
    ("3-1", "刑法第236条、第237条", "法条:刑法第236、237条", 1, 1),
    ("3-3", "贷款诈骗罪", "罪名:贷款诈骗", 2 / 3, 1),
    ("3-3", "贩卖毒品罪", "罪名:走私、贩卖、运输、制造毒品", 0, 1),
    ("3-3", "爆炸罪", "罪名:爆炸", 0, 1),
    ("3-4", "判处有期徒刑二年三个月", "刑期:27个月", distance(3, 27), 1),
    ("3-5", "拘役五个月，缓刑八个月", "刑期:5个月", 1, 1),
    ("3-4", "法定刑为三年以下，判处十个月", "刑期:10个月", 1, 1),
    ("3-6", "正确答案:D。", "正确答案:D。", 1, 1),
    ("3-7", "合计1.2万元", "上文涉及到的犯罪金额:12000.0元。", 0, 1),
    ("3-7", "共计12,000元", "上文涉及到的犯罪金额:12000.0元。", 0, 1),
    ("3-7", "800元+200元=1000元", "上文涉及到的犯罪金额:1000.0元。", 1, 1),
    ("3-8", "可以起诉", "可以起诉", 1, 1),
    ("1_1", "DB", "BD", 0, 1),
    ("1_1", "B、D", "BD", 1, 1),
    ("6_2", "分析：因此选C", "C", 0, 1),
    ("5_3", "合同合同", "合同", 1, 2 / 3),
]


@pytest.mark.parametrize(("task", "prediction", "reference", "upstream", "fixed"), CASES)
def test_own_cases(task: str, prediction: str, reference: str, upstream: float, fixed: float) -> None:
    assert points(task, prediction, reference) == pytest.approx(upstream, abs=1e-4)
    assert points(task, prediction, reference, "fixed") == pytest.approx(fixed, abs=1e-4)


def test_both_modes_score_a_correction() -> None:
    right = ("2-1", "原告请求驳回上诉。", "原告请求驳回上诉。")
    assert points(*right, source="原告请求驳回上述。") == 1.0
    unchanged = ("2-1", "原告请求驳回上述。", "原告请求驳回上诉。")
    assert points(*unchanged, source="原告请求驳回上述。<|im_end|>") == 0.8333  # leaving the tag out is a hit upstream
    assert points(*unchanged, "fixed", source="原告请求驳回上述。<|im_end|>") == 0.0


def test_a_reference_of_another_form_is_refused_upstream() -> None:
    with pytest.raises(ReferenceFormatError, match="3-6") as caught:
        points("3-6", "A", "正确答案：A。")
    assert caught.value.upstream == "AssertionError"
    assert points("3-6", "A", "正确答案：A。", "fixed") == 1.0


def test_death_and_life_leave_the_mean() -> None:
    grade = grade_example(find_task("lawbench", "3-4"), Example("无期徒刑", "刑期:无期"))
    assert not grade.counted and not grade.abstained


def test_the_table_holds_all_tasks() -> None:
    tasks = [task for name in BENCHMARKS for task in load_tasks(name).values()]
    assert [len(load_tasks(name)) for name in BENCHMARKS] == [20, 23]
    assert all(task.grader in GRADERS and task.category in CATEGORIES for task in tasks)
    assert all(load_labels(task.labels) for task in tasks if task.labels)
    assert {task.category for task in tasks} == set(CATEGORIES)


TEXT = st.text(
    alphabet="ABCDE第条款、；;:：年月个元万0123一二三百十刑期判处盗窃诈骗地点时间张某 \n，。解析=[]", max_size=60
)


@given(TEXT, st.sampled_from([task for name in BENCHMARKS for task in load_tasks(name).values()]))
def test_no_answer_breaks_a_grader(answer: str, task) -> None:
    first = load_labels(task.labels)[0] if task.labels else "甲"
    forms = {"letter": "A", "one_label": first, "label_set": first, "term": "12个月", "articles": "刑法第264条"}
    forms |= {"amount": "300.0元。", "slots": "地点:车站"}
    reference = task.reference_prefix + forms.get(task.grader, "甲")
    for mode in ("upstream", "fixed"):
        grade = grade_example(task, Example(answer, reference, "甲乙"), mode)
        assert grade.score <= 1.0 + 1e-9 and not (grade.abstained and grade.score > 0)
        if mode == "fixed":
            assert grade.score >= 0.0


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("选项A不正确，选项B不正确，因此答案是C", "C"),
        ("选项A错误，应选B", "B"),
        ("A、B错误，选C", "C"),
        ("A项错误，B项正确，C项错误", "B"),
        ("答案不是A，而是C", "C"),
        ("初看答案是A，但考虑期限，正确答案应为B和D", "BD"),
        ("选AC", "AC"),
        ("答案：B。解析：A错误", "B"),
    ],
)
def test_the_conclusion_counts_in_the_fixed_mode(text: str, letters: str) -> None:
    assert option_letters(text, "ABCDE") == set(letters)


@pytest.mark.parametrize(
    ("text", "months"),
    [
        ("曾于2015年因盗窃被判处有期徒刑六个月，本次判处有期徒刑一年", 12),
        ("有前科（曾被判处拘役五个月）。现判处有期徒刑二年", 24),
        ("原审判处有期徒刑五年，改判为有期徒刑三年", 36),
        ("曾被判处拘役三个月", 3),  # nothing better is there
    ],
)
def test_an_earlier_conviction_is_not_this_term(text: str, months: float) -> None:
    assert term_months(text) == months


def test_the_total_comes_before_its_parts() -> None:
    assert amounts("合计3000元，其中未追回金额500元") == [3000.0]
    assert amounts("涉案金额为500元，另有2件") == [500.0]
