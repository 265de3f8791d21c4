"""A comparison as lines of text: a part for each measure, a row for each attention."""

from collections.abc import Sequence

from .report import EXACT, MEASURES, Comparison, ComparisonRow, Spread, milliseconds


def lines(found: Comparison) -> list[str]:
    """A part for each measure, a row for each attention; what is not there says why, below."""
    threads = "one thread" if found.threads == 1 else f"{found.threads} threads"
    told = [
        f"{found.model}: {len(found.rows)} attention mechanisms, {threads}, batch size 1, {found.took:.0f} s in total",
        "",
    ]
    built = [row for row in found.rows if not row.reason]
    width = max([len(row.name) for row in found.rows] + [9])
    for measure in MEASURES.values():
        shown = [row for row in built if any(measure.cost(point) is not None for point in row.points)]
        if not shown:
            continue
        often = any(measure.rounds(point) for row in shown for point in row.points)
        heads = [f"{length:,}" for length in found.lengths] + ["growth"] * measure.grows + ["spread"] * often
        told += [measure.title, f"  {found.unit:<{width}}" + "".join(f"{head:>11}" for head in heads)]
        for row in shown:
            costs = {point.length: measure.cost(point) for point in row.points}
            values = [None if (x := costs.get(length)) is None else measure.show(x) for length in found.lengths]
            if measure.grows:
                power = row.growth(measure.cost)
                values.append(None if power is None else f"n^{power:.2f}")
            if often:
                values.append(f"{doubt([measure.rounds(point) for point in row.points]) or 0:.0%}")
            told.append(f"  {row.name:<{width}}" + "".join(f"{value or '-':>11}" for value in values))
        told.append("")
    told += learned(found, built, width)
    missing = reasons(found)
    if missing:
        told += ["not measured", *(f"  {name:<{width}}  {reason}" for name, reason in missing), ""]
    told += [f"- {note}" for note in found.notes]
    if any("would take" in reason for _, reason in missing):
        told.append("- Measurements that would exceed --minutes are skipped: increase it, or compare fewer mechanisms.")
    if found.stopped:
        told.append("- Interrupted: results are incomplete.")
    if found.busy:
        told.append(f"- {found.busy}")
    return told


def learned(found: Comparison, rows: Sequence[ComparisonRow], width: int) -> list[str]:
    shown = [row for row in rows if row.lesson.losses]
    if not shown or found.seconds is None:
        return []
    heads = [f"{found.steps} steps", milliseconds(found.seconds), "error", "faster from"]
    told = ["held-out loss after equal training steps and after equal training time"]
    told.append(f"  {'':<{width}}" + "".join(f"{head:>13}" for head in heads))
    for row in shown:
        losses = [None if x is None else f"{x:.3f}" for x in (row.loss(found.steps), found.equal_time(row))]
        error = None if row.lesson.error is None else MEASURES["error"].show(row.lesson.error)
        crossing = found.crossing(row)
        values = [*losses, error, None if crossing is None else f"{crossing:,.0f}"]
        told.append(f"  {row.name:<{width}}" + "".join(f"{value or '-':>13}" for value in values))
    return [
        *told,
        f"  error: relative output error with weights trained with {EXACT}; lsh: against the same net without hashing",
        f"  faster from: length in {found.unit} from which a training step is faster than with {EXACT}",
        "",
    ]


def reasons(found: Comparison) -> list[tuple[str, str]]:
    """What is missing of each, and why: an attention, some of its lengths, or its lesson."""
    told = []
    for row in found.rows:
        own = [row.reason] if row.reason else []
        own += [f"{point.length:,} {found.unit}: {point.reason}" for point in row.points if point.reason]
        own += [f"training: {row.lesson.reason}"] if row.lesson.reason else []
        if own:
            told.append((row.name, "; ".join(own)))
    return told


def doubt(points: Sequence[Spread | None]) -> float | None:
    """Half the distance of the quartiles as a share of the median, the largest of several."""
    return max((0.5 * (x.high - x.low) / x.median for x in points if x is not None), default=None)
