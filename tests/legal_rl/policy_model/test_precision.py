"""Which arithmetic the pretraining takes on which CPU."""

from __future__ import annotations

import pytest

from legal_rl.policy_model.pretrain import uses_bfloat16

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("precision", "avx512_bf16", "amx", "expected"),
    [("auto", False, False, False), ("auto", True, False, True), ("auto", False, True, True),
     ("bfloat16", False, False, True), ("float32", True, True, False)],
)  # fmt: skip
def test_bfloat16_only_where_it_is_computed(
    monkeypatch: pytest.MonkeyPatch, precision: str, avx512_bf16: bool, amx: bool, expected: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    uses_bfloat16.cache_clear()
    assert uses_bfloat16(precision) is expected
    uses_bfloat16.cache_clear()
