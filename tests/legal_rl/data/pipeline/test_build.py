"""Profiles, records, assembly, and a whole build by rule on a small material."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envs.records import read_questions
from legal_rl.data.pipeline.assemble import (
    ambiguous,
    assign_splits,
    near_duplicates,
    principle_broken,
    split_keys,
)
from legal_rl.data.pipeline.build import BuildPlan, Filler, build, fill_all, load_material, scaled_quotas
from legal_rl.data.pipeline.profiles import DOMAINS, builtin_profiles, choose_profiles, read_profile
from legal_rl.data.pipeline.records import TrainingRecord, json_schema, record_from_dict, to_question
from legal_rl.data.pipeline.rules import RULES, RuleTeacher
from legal_rl.data.readers.lines import DataError, read_lines, write_lines
from legal_rl.data.readers.sources import SourceText
from retrieval_server.corpus import load_articles

ROOT = Path(__file__).resolve().parents[4]
TABLE_9 = {
    "Knowledge Retrieval": 1_300,
    "Understanding": 7_423,
    "Reasoning": 4_707,
    "Generation": 2_928,
    "Consultation": 2_582,
}


def record(number: int, **changes: object) -> TrainingRecord:
    return TrainingRecord.model_validate(
        {
            "id": f"r{number}", "instruction": "答。", "question": f"第{number}问？", "answer": "盗窃罪",
            "evidence": (f"c{number}",), "domain": "Reasoning", "sub_category": "Charge Prediction",
            "profile": "charge_prediction", "grader": "set_f1", "source": "toy", "source_id": f"c{number}", **changes,
        }
    )  # fmt: skip


def test_profiles_are_those_of_table_9() -> None:
    """The text of the paper says 29 sub-categories; its table has 28 rows, and they add up to its total."""
    profiles = builtin_profiles().values()
    sums = {domain: sum(p.quota for p in profiles if p.domain == domain) for domain in DOMAINS}
    assert len(profiles) == 28 and sums == TABLE_9 and sum(sums.values()) == 18_940
    assert set(RULES) <= set(builtin_profiles())
    assert len({p.sub_category for p in profiles}) == 28


def test_profiles_by_name_domain_and_file(tmp_path: Path) -> None:
    assert [p.id for p in choose_profiles(["Knowledge Retrieval"])] == ["clause_recall", "clause_retrieval"]
    assert len(choose_profiles([])) == 28
    with pytest.raises(
        DataError, match=r"no profile 'nonsense'; give a \.yaml file, a domain, or one of: clause_recall"
    ):
        choose_profiles(["nonsense"])
    path = tmp_path / "mine.yaml"
    path.write_text("id: mine\ngrader: nonsense\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"mine\.yaml: field 'domain'"):
        read_profile(path)


def test_the_published_schema_is_the_programs() -> None:
    published = ROOT / "docs" / "training-record.schema.json"
    assert json.loads(published.read_text(encoding="utf-8")) == json_schema(), "run: legal-rl data schema --out docs/…"


def test_records_round_trip_and_refuse_unknown_fields() -> None:
    one = record(1).after("leakage", "kept")
    assert record_from_dict(json.loads(one.model_dump_json()), "x") == one
    with pytest.raises(DataError, match=r"records\.jsonl, line 3: field 'nonsense'"):
        record_from_dict({**one.model_dump(), "nonsense": 1}, "records.jsonl, line 3")
    question = to_question(record(2, choices=("甲", "乙"), answer="B", grader="choice"))
    assert question.text == "答。\n第2问？\nA. 甲\nB. 乙" and question.reference is not None
    assert question.reference.evidence_ids == ("c2",)


def test_quotas_are_shared_out_by_largest_remainders() -> None:
    profiles = choose_profiles(["clause_recall", "clause_retrieval", "contract_generation"])
    assert scaled_quotas(profiles, 100) == {"clause_recall": 38, "clause_retrieval": 61, "contract_generation": 1}
    assert scaled_quotas(profiles, 9_999) == {"clause_recall": 500, "clause_retrieval": 800, "contract_generation": 8}


def test_repeats_and_contradictions() -> None:
    long = "甲公司与乙公司签订设备买卖合同约定三批交付后乙公司迟延付款甲公司请求解除合同并赔偿损失是否应予支持呢"
    records = [
        record(0), record(1, question="第０问 ?"), record(2, question=long), record(3, question=long + "！"),
        record(4, question="何罪？", answer="抢劫罪"), record(5, question="何罪？", answer="抢夺罪"),
    ]  # fmt: skip
    assert near_duplicates(records) == {1: 0, 3: 2}
    assert ambiguous(records) == {4, 5}


def test_questions_that_differ_only_in_numbers_are_two() -> None:
    question = "判决书写有以下各项：罚金人民币{}元，罚金人民币{}元。以上各项合计多少元？"
    long = "某市中级人民法院审理查明被告人多次进入他人住宅实施行为并在逃离现场时被群众发现后扭送公安机关" * 12
    records = [
        record(0, question=question.format("五千", "三千"), answer="8000元"),
        record(1, question=question.format("九千", "一万"), answer="19000元"),
        record(2, question=f"{long}罚金五千元。合计多少元？", answer="5000元"),
        record(3, question=f"{long}罚金三千元。合计多少元？", answer="3000元"),
    ]
    assert near_duplicates(records) == {}


def test_sums_are_written_without_an_exponent() -> None:
    source = SourceText("c", "judgment", "x" * 30, metadata={"result": "甲判处罚金1239450元；乙判处罚金50.5元。"})
    written = RULES["amount_calculation"](source)
    assert written is not None and written["answer"] == "1239500.5元" and "各被告人" not in written["question"]


def repeating(number: int) -> SourceText:
    """Every question comes twice in four."""
    term = "甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未申酉戌亥天地玄黄宇宙洪荒日月盈昃辰宿列张"[number // 4]
    text = f"本法所称{term}某物，是指{term * 9}的东西。"
    return SourceText(
        f"s{number}", "statute", text, metadata={"law": "试行法", "label": f"第{number // 4}条"}, source="toy"
    )


def test_repeats_do_not_count_for_the_quota_and_nothing_vanishes() -> None:
    sources = [repeating(n) for n in range(120)]
    profiles = choose_profiles(["clause_recall", "concept_comprehension"])
    fillers = [Filler(profile, sources, RuleTeacher(), 0, lambda name, done, total: None) for profile in profiles]
    fill_all(fillers, 41)
    assert sum(len(filler.kept) for filler in fillers) == 41
    for filler in fillers:
        dropped = [row for row in (*filler.discarded, *filler.lost) if row["stage"] != "gate1"]
        assert len(filler.kept) + len(dropped) == len(filler.candidates) - filler.left
    assert sum(len(filler.lost) for filler in fillers) > 0


def test_refusals_are_counted_by_source(tmp_path: Path) -> None:
    lengths = [5, 6, 7, 8, 9, 10, 11, 12]
    sources = [SourceText(f"s{n}", "statute", "甲" * n, metadata={"law": "a", "label": "第一条"}) for n in lengths]
    sources += [SourceText(f"{kind}{n}", kind, "甲" * 30) for kind in ("qa", "text", "choice") for n in range(2)]
    write_lines(tmp_path / "s.jsonl", (source.to_dict() for source in sources))
    plan = BuildPlan(tmp_path / "set", (str(tmp_path / "s.jsonl"),), ("clause_recall", "multi_hop_qa"))
    manifest = build(plan, RuleTeacher())
    assert manifest["discarded"] == {"gate1": 14, "gate2": 14}
    rows = [row for _, row in read_lines(tmp_path / "set" / "discarded.jsonl") if row["stage"] == "gate1"]
    assert {"count": 8, "reason": "the task takes 20 to 6000"}.items() <= {**rows[0]}.items() and len(rows) == 4


def test_a_rebuilt_set_holds_nothing_of_the_one_before(statutes: Path, tmp_path: Path) -> None:
    out = tmp_path / "set"
    out.mkdir()
    for name in ("manifest.json", "grpo.parquet", "records.jsonl.tmp123"):
        (out / name).write_text("old", encoding="utf-8")
    manifest = build(BuildPlan(out, (str(statutes),), ("clause_recall",), max_records=12), RuleTeacher())
    assert "grpo.parquet" in manifest["files"] and (out / "grpo.parquet").read_bytes()[:4] == b"PAR1"
    assert not list(out.glob("*.tmp*"))
    (out / "README.md").unlink()
    (out / "README.md").mkdir()  # the card cannot be written: an interrupted run
    with pytest.raises(OSError):
        build(BuildPlan(out, (str(statutes),), ("multi_hop_qa",)), RuleTeacher())
    assert not (out / "manifest.json").exists() and not (out / "grpo.parquet").exists()


def test_two_texts_with_one_id_are_an_error(statutes: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.jsonl").write_bytes(statutes.read_bytes())
    with pytest.raises(DataError, match=r"copy\.jsonl: a second source text with id 'law/.*norms\.jsonl"):
        list(load_material([str(statutes), str(tmp_path / "copy.jsonl")]))


def test_no_source_or_article_stands_in_two_splits() -> None:
    records = [
        record(n, articles=(f"刑法第{n % 40}条",), source_id=f"c{n % 90}", evidence=(f"c{n % 90}",)) for n in range(300)
    ]
    split = assign_splits(records)
    for key in {key for r in split for key in split_keys(r)}:
        assert len({r.split for r in split if key in split_keys(r)}) == 1
    assert len({r.split for r in assign_splits([record(n) for n in range(200)])}) == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"evidence": ()}, "not answerable: no evidence"),
        ({"grader": "amount"}, "not answerable: grader amount"),
        ({"question": "甲犯盗窃罪，何罪？"}, "leakage: charge"),
        ({"answer": "盗窃罪" * 30}, "not concise: 90 characters"),
        ({"choices": ("甲", "乙"), "answer": "C", "grader": "choice"}, "not valid"),
    ],
)
def test_principles(changes: dict[str, object], reason: str) -> None:
    broken = principle_broken(record(1, **changes), builtin_profiles()["charge_prediction"])
    assert broken.startswith(reason) and bool(broken) == bool(reason)


@pytest.fixture(scope="module")
def statutes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three laws out of the embedded corpus, as a norms file."""
    path = tmp_path_factory.mktemp("norms") / "norms.jsonl"
    laws = {"刑法", "专利法", "森林法"}
    articles = (a for a in load_articles() if a.law_key in laws and a.in_force_until is None)
    write_lines(path, (a.model_dump(mode="json") for a in articles))
    return path


def test_a_build_by_rule(statutes: Path, tmp_path: Path) -> None:
    def plan(name: str) -> BuildPlan:
        sources = (str(statutes), "generated:count=60")
        names = (
            "clause_recall",
            "clause_retrieval",
            "scenario_analysis",
            "charge_prediction",
            "sentence_prediction",
            "multi_hop_qa",
        )
        return BuildPlan(out_dir=tmp_path / name, sources=sources, profiles=names, max_records=120)

    manifest = build(plan("a"), RuleTeacher())
    build(plan("b"), RuleTeacher())
    for name in manifest["files"]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    rows = [record_from_dict(row, "x") for _, row in read_lines(tmp_path / "a" / "records.jsonl")]
    assert len(rows) == manifest["records"] == 120
    assert sum(row["records"] for row in manifest["counts"].values()) == 120
    assert all(row.licence and row.evidence and row.history[-1].stage == "principles" for row in rows)
    questions = [q for s in ("train", "dev", "test") for q in read_questions(tmp_path / "a" / f"{s}.questions.jsonl")]
    assert sorted(q.id for q in questions) == sorted(row.id for row in rows)
    reasons = [row for _, row in read_lines(tmp_path / "a" / "discarded.jsonl")]
    assert all(row["stage"] and row["reason"] for row in reasons)
    unwritten = next(row for row in reasons if row["source_id"] == "all sources")
    assert unwritten["profile"] == "multi_hop_qa" and unwritten["stage"] == "gate2" and unwritten["count"] > 600
    assert unwritten["reason"] == "rules v2 does not write this task"
    assert manifest["discarded"]["gate2"] == sum(row["count"] for row in reasons if row["stage"] == "gate2")
    card = (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
    assert "Not compared with any benchmark" in card and "| Reasoning | Charge Prediction |" in card


def test_a_contaminated_source_makes_no_question(statutes: Path, tmp_path: Path) -> None:
    theft = next(row for _, row in read_lines(statutes) if row["law_key"] == "刑法" and row["article_no"] == 264)
    write_lines(tmp_path / "bench.jsonl", [{"question": "刑法第264条的内容是？", "answer": "答案:" + theft["text"]}])
    plan = BuildPlan(tmp_path / "set", (str(statutes),), ("clause_recall",), (tmp_path / "bench.jsonl",))
    manifest = build(plan, RuleTeacher())
    assert manifest["discarded"]["contamination"] == 1 and list(manifest["benchmarks"]) == ["bench.jsonl"]
    assert theft["id"] not in (tmp_path / "set" / "records.jsonl").read_text(encoding="utf-8")
    with pytest.raises(DataError, match="no such file or folder"):
        build(BuildPlan(tmp_path / "set2", (str(statutes),), (), (tmp_path / "gone",)), RuleTeacher())


def test_a_source_that_calls_itself_a_statute_is_under_test_too(tmp_path: Path) -> None:
    text = (
        "甲在河边拾得钱包一只，内有现金若干，失主当场索要而甲拒不归还，还把失主推倒在地后跑开，问甲应当承担何种责任？"
    )
    write_lines(tmp_path / "bench.jsonl", [{"question": text}])
    source = {"id": "mine", "kind": "statute", "text": "第一条" + "春华秋实岁月流转" * 30 + text, "metadata": {}}
    write_lines(tmp_path / "mine.jsonl", [source])
    plan = BuildPlan(tmp_path / "set", (str(tmp_path / "mine.jsonl"),), ("clause_recall",), (tmp_path / "bench.jsonl",))
    assert build(plan, RuleTeacher())["discarded"]["contamination"] == 1
