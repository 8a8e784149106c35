"""The stages as a map: cut anywhere, on a cluster of two workers, always the same bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from legal_rl.data.pipeline import ray_map
from legal_rl.data.pipeline.build import load_material
from legal_rl.data.readers.lines import read_lines, write_lines

JUDGMENT = "张某被判处有期徒刑六年，李某有期徒刑三年，王某有期徒刑二年，赵某有期徒刑一年，罚金五千元。"
BENCHMARK = "甲于某日在河边拾得钱包一只，内有现金若干，失主当场索要而甲拒不归还，问甲应当承担什么责任？"
SCRIPT = """
import sys
from pathlib import Path
import ray
from legal_rl.data.pipeline.library import build_library
from legal_rl.data.pipeline.ray_map import ContaminationStage, distractor_stage, leakage_stage, map_on_ray
from ray.cluster_utils import Cluster
head = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False, "temp_dir": sys.argv[4]}
cluster = Cluster(initialize_head=True, head_node_args=head)
cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
ray.init(address=cluster.address)
assert sum(node["Alive"] for node in ray.nodes()) == 2
if len(sys.argv) > 5:  # sources through gates and synthesis, the teacher in one actor
    from legal_rl.data.pipeline.profiles import choose_profiles
    from legal_rl.data.pipeline.rules import RuleTeacher
    from legal_rl.data.pipeline.stages import Gate1Stage, QualityStage, TeachStage, remote_teacher
    (profile,) = choose_profiles(["charge_prediction"])
    made = [Gate1Stage(profile), TeachStage(profile, remote_teacher(RuleTeacher)), QualityStage([profile])]
    print(map_on_ray(Path(sys.argv[5]), Path(sys.argv[5] + ".there"), made))
stages = [ContaminationStage(build_library([Path(sys.argv[3])])), leakage_stage, distractor_stage]
print(map_on_ray(Path(sys.argv[1]), Path(sys.argv[2]), stages))
ray.shutdown()
cluster.shutdown()
"""


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    leaking = "张某被判处6年有期徒刑，其刑期是？"
    write_lines(
        path,
        (
            {
                "id": f"q{n}",
                "question": leaking if n % 5 == 0 else f"第{n}案中张某的主刑是什么？",
                "answer": "有期徒刑六年" if n % 7 else "无从比较的答案",
                "source_text": f"第{n}案：{JUDGMENT}{BENCHMARK if n % 100 == 3 else ''}",
            }
            for n in range(700)
        ),
    )
    return path


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    path = tmp_path / "bench.jsonl"
    write_lines(path, [{"question": BENCHMARK}])
    return path


def statute_file(folder: Path) -> Path:
    """Three sources that the task cannot use."""
    path = folder / "statutes.jsonl"
    rows = [{"id": f"s{n}", "kind": "statute", "text": "盗窃公私财物的，处罚金。", "metadata": {}} for n in range(3)]
    write_lines(path, rows)
    return path


def run(questions: Path, target: Path) -> bytes:
    assert ray_map.map_in_process(questions, target, [ray_map.leakage_stage, ray_map.distractor_stage]) == 700
    return target.read_bytes()


def test_blocks_may_be_cut_anywhere(questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(questions, tmp_path / "a.jsonl")
    monkeypatch.setattr(ray_map, "BATCH", 13)
    assert run(questions, tmp_path / "b.jsonl") == whole
    rows = [record for _, record in read_lines(tmp_path / "a.jsonl")]
    assert [row["id"] for row in rows] == [f"q{n}" for n in range(700)]
    assert sum(bool(row["stages"]["leakage"]) for row in rows) == sum(n % 5 == 0 and n % 7 > 0 for n in range(700))
    assert sum(bool(row["stages"].get("distractors")) for row in rows) == 100


@pytest.mark.slow
def test_two_ray_workers_write_the_same_bytes(questions: Path, benchmark: Path, tmp_path: Path) -> None:
    from legal_rl.data.pipeline.library import build_library

    stages = [ray_map.ContaminationStage(build_library([benchmark])), ray_map.leakage_stage, ray_map.distractor_stage]
    ray_map.map_in_process(questions, tmp_path / "here.jsonl", stages)
    from legal_rl.data.pipeline.profiles import choose_profiles
    from legal_rl.data.pipeline.rules import RuleTeacher
    from legal_rl.data.pipeline.stages import Gate1Stage, QualityStage, TeachStage, dropped_because

    (profile,) = choose_profiles(["charge_prediction"])
    sources = tmp_path / "sources.jsonl"
    material = load_material((str(statute_file(tmp_path)), "generated:count=40"))
    write_lines(sources, (source.to_dict() for source in material))
    made = [Gate1Stage(profile), TeachStage(profile, RuleTeacher()), QualityStage([profile])]
    ray_map.map_in_process(sources, tmp_path / "made.jsonl", made)
    temporary = Path("/tmp") / f"lr-ray-{tmp_path.name[-8:]}"  # Ray's socket paths must be short
    arguments = [str(questions), str(tmp_path / "there.jsonl"), str(benchmark), str(temporary), str(sources)]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()
    assert Path(f"{sources}.there").read_bytes() == (tmp_path / "made.jsonl").read_bytes()
    outcomes = [dropped_because(row) for _, row in read_lines(tmp_path / "made.jsonl")]
    assert sum(not outcome for outcome in outcomes) == 40 and sum(o.startswith("gate1") for o in outcomes) == 3
    hits = [n for n, (_, row) in enumerate(read_lines(tmp_path / "there.jsonl")) if row["stages"]["contamination"]]
    assert hits == [3, 103, 203, 303, 403, 503, 603]
