"""Settings refuse what cannot work."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from legal_rl.policy_model.settings import PolicySettings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"head_dim": 48}, "head_dim 48"),
        ({"heads": 4, "kv_heads": 3}, "not a multiple"),
        ({"max_length": 4096}, "exceeds max_positions"),
        ({"layer": 3}, "Extra inputs"),
    ],
)
def test_refuses(values, message):
    with pytest.raises(ValidationError, match=message):
        PolicySettings(**values)


def test_default_is_a_few_million_parameters_at_most():
    s = PolicySettings()
    attention = s.hidden_size * s.head_dim * (2 * s.heads + 2 * s.kv_heads)
    total = s.vocab_size * s.hidden_size + s.layers * (attention + 3 * s.hidden_size * s.ffn_size)
    assert total < 4e6
