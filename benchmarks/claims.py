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
    our_figures, peer_figures = [], []
    for _ in range(runs):
        our_figures.append(ours())
        if peer:
            peer_figures.append(peer())
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
