"""Training settings: the paper's defaults, divisibility, unknown keys."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from legal_rl.training.settings import GrpoSettings, SftSettings


def test_defaults_are_the_papers():
    settings = GrpoSettings()
    assert (settings.group_size, settings.kl_coef, settings.n_gpus_per_node) == (8, 0.08, 3)
    assert SftSettings().mask == "paper"


def test_group_of_one_is_refused():
    with pytest.raises(ValidationError, match="group_size"):
        GrpoSettings(group_size=1)


def test_32_prompts_over_three_gpus_are_refused_with_the_fix():
    with pytest.raises(ValidationError, match="set prompts_per_step to 30 or 33"):
        GrpoSettings(prompts_per_step=32)


def test_mini_batch_must_divide():
    with pytest.raises(ValidationError, match="mini_batch_prompts"):
        GrpoSettings(n_gpus_per_node=1, prompts_per_step=8, mini_batch_prompts=3)


@pytest.mark.parametrize("kind", [SftSettings, GrpoSettings])
def test_unknown_key_is_an_error(kind):
    with pytest.raises(ValidationError, match="learning_rat"):
        kind(learning_rat=1.0)
