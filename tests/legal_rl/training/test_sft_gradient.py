"""The loss of verl's SFT on our masks: no gradient from evidence tokens, some from action tokens."""

from __future__ import annotations

import pytest

pytest.importorskip("verl")
pytestmark = pytest.mark.slow  # imports verl


@pytest.mark.parametrize("mode", ["assistant", "paper"])
async def test_gradient_by_provenance(toy_world, mode):
    """d loss / d log p(token) is zero exactly where the mask says so, the packed neighbours' borders included."""
    import torch
    from tensordict import TensorDict
    from transformers import AutoTokenizer
    from verl.workers.utils.losses import sft_loss

    from envs.records import read_rollouts
    from envs.tokens import record_from_messages
    from envs.types import Provenance
    from legal_rl.training.rows import loss_mask

    tokenizer = AutoTokenizer.from_pretrained(toy_world.model)
    rollouts = [rollout for rollout, _ in zip(read_rollouts(toy_world.rollouts), range(2), strict=False)]
    records = [record_from_messages(tokenizer, rollout.messages) for rollout in rollouts]
    masks = [torch.tensor(loss_mask(record, mode)) for record in records]
    log_probs = [torch.full((len(mask),), -1.0, requires_grad=True) for mask in masks]
    nested = torch.nested.as_nested_tensor(log_probs, layout=torch.jagged)
    data = TensorDict({"loss_mask": torch.nested.as_nested_tensor(masks, layout=torch.jagged)}, batch_size=2)
    data["dp_size"] = torch.ones(2)
    data["batch_num_tokens"] = torch.ones(2)
    loss, _ = sft_loss(
        None, {"log_probs": nested}, {"loss_mask": data["loss_mask"], "dp_size": 1, "batch_num_tokens": 1}
    )
    loss.backward()
    for record, mask, log_prob in zip(records, masks, log_probs, strict=True):
        assert log_prob.grad is not None
        gradient = torch.roll(log_prob.grad, 1)  # position t predicts token t + 1
        assert torch.equal(gradient != 0, mask.bool())
        evidence = torch.tensor(record.evidence)
        policy = torch.tensor([who == Provenance.POLICY for who in record.provenance])
        assert evidence.any()
        assert (gradient[evidence] == 0).all()
        assert (gradient[policy] != 0).all()
