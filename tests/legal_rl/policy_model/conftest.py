"""A few made-up statutes and one tiny policy for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from legal_rl.policy_model.build import build_policy
from legal_rl.policy_model.settings import PolicySettings

SUBJECTS = ("渔业资源", "城市绿化", "档案管理", "海上交通", "种子质量", "职业教育", "水土保持", "文物保护", "广告内容")
VERBS = ("应当依法登记", "由县级人民政府负责", "不得擅自转让", "可以委托检验机构办理", "应当接受监督检查")
TEXTS = [
    f"国家对{subject}实行分类管理，{verb}，但是法律另有规定的除外。\n违反{subject}规定的，处三年以下有期徒刑或者拘役，并处罚金。"
    for subject in SUBJECTS
    for verb in VERBS
]
SAMPLES = [
    "<think>查刑法第二百六十四条</think>"
    '<search>{"source": "statute", "query": "刑法第二百六十四条", "intent": "条文首句"}</search>',
    "<information>\n[1] law/刑法@2020-12-26#264 《中华人民共和国刑法》第二百六十四条\n"
    "盗窃公私财物，数额较大的，处刑。\n</information>",
    "刑法第二百六十四条写了什么？",
] * 20
SETTINGS = PolicySettings(
    vocab_size=700, layers=2, hidden_size=64, heads=2, kv_heads=2, ffn_size=64, steps=4, minutes=0,
    tokens_per_step=1024, max_length=512, warmup_steps=1, checkpoint_steps=2, log_steps=1, threads=1,
)  # fmt: skip


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return list(TEXTS)


@pytest.fixture(scope="session")
def samples() -> list[str]:
    return list(SAMPLES)


@pytest.fixture(scope="session")
def settings() -> PolicySettings:
    return SETTINGS


@pytest.fixture(scope="session")
def policy_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy") / "base"
    build_policy(SETTINGS, TEXTS, SAMPLES, folder)
    return folder
