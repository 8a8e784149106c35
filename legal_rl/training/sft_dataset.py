"""verl's dataset of token records: the tokens are those of the rollout, the mask comes from their provenance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import Dataset


class TokenRecordDataset(Dataset):
    """Rows of a parquet file made by `legal_rl.training.rows.write_sft_rows` (verl: `data.custom_cls`)."""

    def __init__(
        self, parquet_files: str | Sequence[str], tokenizer: Any, config: Any, processor: Any = None, **_: Any
    ) -> None:
        import pyarrow.parquet as pq

        files = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        tables = [pq.read_table(file, columns=["input_ids", "loss_mask"]) for file in files]
        self._ids = [row for table in tables for row in table["input_ids"].to_pylist()]
        self._masks = [row for table in tables for row in table["loss_mask"].to_pylist()]

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """`input_ids`, `position_ids`, `loss_mask`, each of shape [T]."""
        ids = torch.tensor(self._ids[index], dtype=torch.long)
        return {
            "input_ids": ids,
            "position_ids": torch.arange(len(ids)),
            "loss_mask": torch.tensor(self._masks[index], dtype=torch.long),
        }
