"""The contamination filter: planted copies are found, clean texts stay, a missing benchmark is an error."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legal_rl.data.pipeline.contamination import Overlap, Thresholds, decontaminate, scan
from legal_rl.data.pipeline.fingerprints import NGRAM, SEPARATOR, characters, fingerprints
from legal_rl.data.pipeline.library import Library, build_library, digests_of, find, texts_of
from legal_rl.data.readers.lines import DataError

DATA = Path(os.environ.get("LEGAL_RL_DATA", Path(__file__).resolve().parents[5] / "shared" / "data"))
QUESTION = (
    "被告人在集市上趁摊主不备取走帆布包一只，包内有现金和两部手机，摊主追赶时被告人把包扔进河里后逃走，"
    "次日由其姐陪同到派出所说明经过，并赔偿了摊主的全部损失，摊主表示谅解。"
)
CHARS = "甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未申酉戌亥天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏"


def write_benchmark(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def read(codes: np.ndarray) -> str:
    return "".join(map(chr, codes))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    rows = [
        {"instruction": "请回答", "question": QUESTION, "answer": "盗窃罪"},
        {"question": "何谓要约邀请的撤回", "answer": ""},
    ]
    return write_benchmark(tmp_path / "bench.jsonl", rows)


def test_normalisation_by_hand() -> None:
    assert read(characters("第 ２６４ 条，Ａｂ（三万元）")) == "第条ab元"
    assert read(characters("第二百六十四条、AB 3万元")) == "第条ab元"


@given(st.text(max_size=80))
def test_fingerprints_are_those_of_every_window(text: str) -> None:
    codes = characters(text.replace(SEPARATOR, ""))
    whole = fingerprints(codes)
    assert len(whole) == max(0, len(codes) - NGRAM + 1)
    assert [int(h) for h in whole] == [int(fingerprints(codes[i : i + NGRAM])[0]) for i in range(len(whole))]


@given(st.text(alphabet=CHARS + "一二3４，。 \n\u3000Ａa", max_size=60), st.randoms())
def test_white_space_and_punctuation_change_nothing(text: str, rng: random.Random) -> None:
    noisy = "".join(ch + rng.choice(["", "", " ", "，", "\u3000", "1", "零"]) for ch in text)
    assert np.array_equal(characters(text), characters(noisy))


def test_a_copy_inside_a_longer_text_is_found(small: Path) -> None:
    library = build_library([small])
    rng = random.Random(1)
    noise = "".join(rng.choice(CHARS) for _ in range(2_000))
    copy, clean = scan(library, [noise + QUESTION.replace("，", "　,") + noise, noise])
    assert copy.containment == 1.0 and copy.grams == copy.size and copy.contaminated(Thresholds())
    assert (copy.benchmark, copy.sample) == ("bench.jsonl", "bench.jsonl:1")
    assert copy.shared == copy.size and copy.total > 4_000
    assert clean == Overlap(total=2_000 - NGRAM + 1)


def test_one_shared_gram_is_dropped_in_strict_mode_only(small: Path) -> None:
    (overlap,) = scan(build_library([small]), [QUESTION[:24] + "".join(random.Random(2).choices(CHARS, k=300))])
    assert 0 < overlap.grams < 10
    assert overlap.contaminated(Thresholds.strict()) and not overlap.contaminated(Thresholds())


def test_short_texts_count_as_a_whole(small: Path) -> None:
    library = build_library([small])
    same, longer, charge = scan(library, ["何谓 要约邀请的撤回？", "何谓要约邀请的撤回，请举例说明", "盗窃罪"])
    assert same.whole and same.contaminated(Thresholds())
    assert not longer.contaminated(Thresholds()) and not charge.contaminated(Thresholds())


def test_formulas_identify_nothing(tmp_path: Path) -> None:
    formula = "".join(random.Random(3).choices(CHARS, k=60))
    rows = [{"question": formula + "".join(random.Random(i).choices(CHARS, k=60))} for i in range(30)]
    library = build_library([write_benchmark(tmp_path / "b.jsonl", rows)])
    alone, whole = scan(library, [formula + "。", str(rows[4]["question"])])
    assert alone.grams == 0 and alone.shared > 0 and not alone.contaminated(Thresholds.strict())
    assert whole.contaminated(Thresholds())


def test_background_counts_only_where_the_source_is_little_else(small: Path) -> None:
    library = build_library([small], background=[QUESTION])
    noise = "".join(random.Random(4).choices(CHARS, k=400))
    quoted, alone = scan(library, [noise + QUESTION, QUESTION + "。补充一句与题目没有关系的话。"])
    assert not quoted.contaminated(Thresholds.strict()) and quoted.shared > 0
    assert alone.whole and alone.contaminated(Thresholds())


def test_batches_do_not_change_the_answer(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = build_library([small])
    texts = ["", QUESTION[:40], "天地" * 30, QUESTION, SEPARATOR, QUESTION * 3]
    together = list(scan(library, texts))
    assert together == [overlap for text in texts for overlap in scan(library, [text])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file or folder"),
        ("", "holds no sample"),
        ('{"question": "甲"}\n{"idx": 3}\n', "line 2: no text field"),
        ('{"question": "甲"}\n{oops\n', "line 2: not JSON"),
    ],
)
def test_a_benchmark_that_cannot_be_used_is_an_error(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "bench.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        build_library([path])


def test_no_benchmark_and_an_empty_folder_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no benchmark given"):
        build_library([])
    with pytest.raises(DataError, match=r"holds no \.jsonl"):
        build_library([tmp_path])


def test_benchmarks_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [tmp_path / "a" / "data", tmp_path / "b" / "data"]
    for folder in folders:
        folder.mkdir(parents=True)
        write_benchmark(folder / "x.jsonl", [{"question": QUESTION + folder.parent.name}])
    assert {name: row["texts"] for name, row in build_library(folders).summary().items()} == {"data": 1, "data#2": 1}
    digests = digests_of(folders)
    assert list(digests) == ["data", "data#2"] and digests["data"] != digests["data#2"]


def test_a_record_without_text_cannot_be_called_clean(small: Path) -> None:
    library = build_library([small])
    with pytest.raises(DataError, match="record 2: no text in fact"):
        list(decontaminate([{"fact": "甲"}, {"other": "乙"}], library, fields=["fact"]))
    (row,) = decontaminate([{"id": "x", "fact": {"parts": [QUESTION]}}], library)
    assert row[0]["id"] == "x" and row[2]


def dropped(library: Library, record: dict[str, object], *fields: str, limits: Thresholds | None = None) -> bool:
    ((_, _, drop),) = decontaminate([record], library, limits, fields)
    return drop


def test_no_field_of_a_candidate_is_overlooked(small: Path) -> None:
    """`instruction` is the task's prompt in a benchmark, but the question itself in Alpaca's format."""
    library = build_library([small])
    assert dropped(library, {"instruction": QUESTION, "output": "盗窃罪"})
    assert dropped(library, {"instruction": QUESTION}, "instruction")
    assert dropped(library, {"id": QUESTION, "text": "天地玄黄"}, "id")
    with pytest.raises(DataError, match="no text in any field"):
        dropped(library, {"id": "x", "licence": "MIT"})


def test_a_short_benchmark_text_is_found_beside_other_fields(small: Path) -> None:
    library = build_library([small])
    assert dropped(
        library, {"question": "何谓要约邀请的撤回？", "answer": "撤回要约邀请的通知先于要约邀请到达受要约人。"}
    )
    assert not dropped(library, {"question": "何谓要约邀请的撤回，请举例说明？", "answer": "撤回。"})


def test_the_callers_thresholds_choose_the_benchmark_text(tmp_path: Path) -> None:
    """71 grams of a long text and all of a short one: each of the thresholds alone must see its own."""
    rng = random.Random(9)
    long, short = ("".join(rng.choices(CHARS, k=size)) for size in (1_000, 60))
    library = build_library([write_benchmark(tmp_path / "b.jsonl", [{"question": long}, {"question": short}])])
    text = long[:90] + "".join(rng.choices(CHARS, k=500)) + short
    (by_grams,) = scan(library, [text], Thresholds(grams=60, containment=1.0))
    (by_share,) = scan(library, [text], Thresholds(grams=500, containment=0.8))
    assert by_grams.contaminated(Thresholds(grams=60, containment=1.0))
    assert by_share.sample == "b.jsonl:2" and by_share.contaminated(Thresholds(grams=500, containment=0.8))
    (many,) = scan(library, [long[:150] + short[:-10]], Thresholds(grams=100, containment=1.0))
    assert many.sample == "b.jsonl:1" and many.contaminated(Thresholds(grams=100, containment=1.0))


@pytest.mark.parametrize("name", ["more.json", "more.csv", "deep/more.parquet", "more.jsonl.bak"])
def test_a_file_that_would_not_be_guarded_is_an_error(small: Path, name: str) -> None:
    (small.parent / "README.md").write_text("about", encoding="utf-8")
    (small.parent / "deep").mkdir()
    assert build_library([small.parent]).summary()
    (small.parent / name).write_text("[]", encoding="utf-8")
    with pytest.raises(DataError, match=r"not \.jsonl or \.jsonl\.gz, so its samples would not be guarded"):
        build_library([small.parent])


def altered(text: str, rng: random.Random) -> str:
    """Another spelling: white space, punctuation, width and numerals changed."""
    digits = str.maketrans("0123456789", rng.choice(["０１２３４５６７８９", "零一二三四五六七八九", "0123456789"]))
    marks = str.maketrans("，。；：（）", rng.choice([",.;:()", "、！，；［］", "，。；：（）"]))
    text = text.translate(digits).translate(marks)
    return "".join(ch + (rng.choice([" ", "\u3000", "\n", "\t"]) if rng.random() < 0.1 else "") for ch in text)


@pytest.mark.slow
def test_planted_copies_in_real_benchmarks() -> None:
    """400 altered texts, half of them inside other text, among 20,000 clean records: all found, no clean one lost.

    Inside other text only texts of 100 fingerprints that are no statute's are planted: shorter ones and quotations are
    not promised to be found there. JuDGE's judgments stay.
    """
    if not (DATA / "lexeval").is_dir():
        pytest.skip(f"no benchmark files in {DATA}; set LEGAL_RL_DATA")
    from retrieval_server.corpus import load_articles
    from retrieval_server.generated_cases import iter_generated_cases

    statutes = [article.text for article in load_articles()]
    library = build_library([DATA / "lawbench", DATA / "lexeval"], statutes)
    assert library.nbytes < 1e9
    rng = random.Random(7)
    texts = []
    for file in sorted((DATA / "lawbench" / "zero_shot").glob("*.gz")) + sorted((DATA / "lexeval").glob("*.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            texts += [text for record in map(json.loads, lines) for text in texts_of(record)]
    facts = [case.facts for case in iter_generated_cases(seed=3, count=2_000)]
    clean = [fact[:80] + "".join(rng.choices(CHARS, k=150)) + fact[80:200] for fact in facts for _ in range(10)]
    assert len(set(clean)) == 20_000
    whole = [altered(t, rng) for t in rng.sample([t for t in texts if len(characters(t)) >= NGRAM], 200)]
    known = np.unique(np.concatenate([fingerprints(characters(text)) for text in statutes]))
    own = [t for t in texts if (~find(known, fingerprints(characters(t)))[1]).sum() >= 100]
    inside = [rng.choice(clean)[:150] + altered(t, rng) + rng.choice(clean)[:150] for t in rng.sample(own, 200)]
    rows = [(text, False) for text in clean] + [(text, True) for text in whole + inside]
    rng.shuffle(rows)
    found = [overlap.contaminated(Thresholds()) for overlap in scan(library, (text for text, _ in rows))]
    missed = [text for (text, is_planted), hit in zip(rows, found, strict=True) if is_planted and not hit]
    assert missed == [] and sum(found) == 400
    with gzip.open(DATA / "judgments.jsonl.gz", "rt", encoding="utf-8") as lines:
        judgments = [r for r in map(json.loads, lines) if r["id"].startswith("judge-")]
    assert len(judgments) > 300
    rows = decontaminate(judgments, library, fields=("facts", "reason", "result"))
    assert [record["id"] for record, _, drop in rows if drop] == []
