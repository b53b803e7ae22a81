"""How the runs of a machine are chosen: by the seed alone, each value as likely as the others.

Hypothesis itself prefers numbers that stand in the modules that are imported, so its runs depend on these. It also
begins with short runs, and spends many of the others on variations of earlier ones.
"""

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

#: The name for `settings(backend=…)`.
EVEN = "even"


class EvenProvider(HypothesisProvider):
    """Draws numbers from a range."""

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        """Draw one of the range, which has two ends."""
        assert self._random is not None
        assert min_value is not None
        assert max_value is not None
        assert weights is None
        return self._random.randint(min_value, max_value)


AVAILABLE_PROVIDERS[EVEN] = EvenProvider
