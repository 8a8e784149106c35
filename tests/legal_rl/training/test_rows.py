"""Parquet files for verl: masks by mode, questions that survive the trip."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from envs.records import question_from_dict
from envs.types import Question, Reference, TokenRecord
from legal_rl.training.metrics import TrainingError
from legal_rl.training.rows import loss_mask, write_grpo_rows, write_sft_rows

# prompt prompt | policy policy | env evidence evidence env | policy policy
RECORD = TokenRecord(
    token_ids=(5, 6, 7, 8, 9, 10, 11, 12, 13, 14),
    provenance=(0, 0, 1, 1, 2, 2, 2, 2, 1, 1),
    logprobs=(0.0,) * 10,
    turn=(-1, -1, 0, 0, 0, 0, 0, 0, 1, 1),
    evidence=(False, False, False, False, False, True, True, False, False, False),
)


def test_assistant_mask_is_what_the_lawyer_wrote():
    assert loss_mask(RECORD, "assistant") == [0, 0, 1, 1, 0, 0, 0, 0, 1, 1]


def test_paper_mask_leaves_out_evidence_and_the_first_token():
    assert loss_mask(RECORD, "paper") == [0, 1, 1, 1, 1, 0, 0, 1, 1, 1]


def test_sft_rows_leave_out_long_records(tmp_path):
    path = tmp_path / "sft.parquet"
    long = TokenRecord((1,) * 20, (1,) * 20, (0.0,) * 20, (0,) * 20, (False,) * 20)
    assert write_sft_rows([RECORD, long], path, "assistant", max_length=10) == 1
    rows = pq.read_table(path).to_pylist()
    assert rows == [{"input_ids": list(RECORD.token_ids), "loss_mask": [0, 0, 1, 1, 0, 0, 0, 0, 1, 1]}]
    assert [f.name for f in tmp_path.iterdir()] == ["sft.parquet"]


def test_no_record_left_is_one_clear_line(tmp_path):
    with pytest.raises(TrainingError, match=r"raise sft\.max_length"):
        write_sft_rows([RECORD], tmp_path / "x.parquet", "paper", max_length=3)
    assert not list(tmp_path.iterdir())


def test_question_survives_the_trip(tmp_path):
    reference = Reference(actions=("statute", "stop"), evidence_ids=("law/刑法@2023-12-29#264",))
    question = Question(id="recite-1", text="第二百六十四条？", answer="盗窃", family="recite", reference=reference)
    path = tmp_path / "grpo.parquet"
    assert write_grpo_rows([question], path) == 1
    row = pq.read_table(path).to_pylist()[0]
    assert (row["data_source"], row["agent_name"], row["extra_info"]["index"]) == ("recite", "legal", 0)
    assert question_from_dict(json.loads(row["extra_info"]["question"])) == question
