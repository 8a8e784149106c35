"""Parquet files that verl reads: token records for SFT, questions for GRPO."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.records import question_to_dict
from envs.types import Question, TokenRecord
from legal_rl.training.metrics import TrainingError
from legal_rl.training.settings import MaskMode

AGENT_NAME = "legal"


def loss_mask(record: TokenRecord, mode: MaskMode) -> list[int]:
    """0/1 per token. `assistant`: what the Lawyer wrote. `paper`: everything but retrieved evidence.

    The first token is never a target: nothing precedes it, and verl's packed loss would otherwise pair it with the
    last token of the sample before.
    """
    mask = list(record.policy_mask if mode == "assistant" else record.literal_mask)
    if mask:
        mask[0] = 0
    return mask


def write_sft_rows(records: Iterable[TokenRecord], path: Path, mode: MaskMode, max_length: int) -> int:
    """Columns `input_ids`, `loss_mask` (lists of int). Returns the number of rows; longer records are left out.

    Raises:
        TrainingError: no record is left.
    """
    rows = [
        {"input_ids": list(record.token_ids), "loss_mask": loss_mask(record, mode)}
        for record in records
        if len(record.token_ids) <= max_length
    ]
    if not rows:
        raise TrainingError(f"no trajectory of at most {max_length} tokens; raise sft.max_length")
    _write_parquet(rows, path)
    return len(rows)


def write_grpo_rows(questions: Iterable[Question], path: Path) -> int:
    """One row per question in verl's columns; the question itself travels as JSON. Returns the number of rows."""
    rows = [question_row(question, index) for index, question in enumerate(questions)]
    if not rows:
        raise TrainingError(f"{path.name}: no questions to train on")
    _write_parquet(rows, path)
    return len(rows)


def question_row(question: Question, index: int) -> dict[str, Any]:
    """`prompt` is for verl's bookkeeping only: the environment writes the opening messages itself."""
    return {
        "prompt": [{"role": "user", "content": question.text}],
        "data_source": question.family or "legal",
        "agent_name": AGENT_NAME,
        "reward_model": {"style": "rule", "ground_truth": question.answer},
        "extra_info": {
            "index": index,
            "question_id": question.id,
            "question": json.dumps(question_to_dict(question), ensure_ascii=False),
        },
    }


def _write_parquet(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), temporary)
    os.replace(temporary, path)
