"""How a claim is measured: ours and the peer in turn, five times after both are warm; the medians are compared."""

import statistics
from collections.abc import Callable


def compare(
    claim_id: str,
    unit: str,
    better: str,
    ours: Callable[[], float],
    peer: Callable[[], float] | None,
    runs: int = 5,
    **also: object,
) -> dict[str, object]:
    """Each callable does one run and returns its figure. The ratio is the median of the runs' own ratios."""
    ours()
    if peer:
        peer()
    our_figures: list[float] = []
    peer_figures: list[float] = []
    sides = [(ours, our_figures), *([(peer, peer_figures)] if peer else [])]
    for number in range(runs):
        # Whoever runs second may find the machine in another state; it is not always the same.
        for run, figures in sides if number % 2 else reversed(sides):
            figures.append(run())
    ratios = [mine / theirs for mine, theirs in zip(our_figures, peer_figures, strict=False)]
    return {
        "id": claim_id,
        "unit": unit,
        "better": better,
        "ours": _rounded(statistics.median(our_figures)),
        "peer": _rounded(statistics.median(peer_figures)) if peer_figures else None,
        "ratio": _rounded(statistics.median(ratios)) if ratios else None,
        "runs": runs,
        **also,
    }


def _rounded(figure: float) -> float:
    return float(f"{figure:.4g}")
