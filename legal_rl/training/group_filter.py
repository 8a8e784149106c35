"""Which group of rollouts teaches something: the rule of the group filter (decisions, "Group filter")."""

from __future__ import annotations

from dataclasses import dataclass

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Rule for one group; `metrics` are summed before their spread is looked at."""

    enabled: bool = True
    metrics: tuple[str, ...] = ("acc", "gain")
    min_valid: int = 2

    def verdict(self, infos: list[dict[str, float]]) -> str:
        """`keep`, `invalid` (too few valid rollouts) or `constant`.

        Example: acc+gain of (1, 0, 1) -> keep; (1, 1, 1) -> constant; one rollout only -> invalid.
        """
        if len(infos) < self.min_valid:
            return "invalid"
        if not self.enabled:
            return "keep"
        sums = [sum(float(info[name]) for name in self.metrics) for info in infos]
        return "keep" if max(sums) - min(sums) > TOLERANCE else "constant"
