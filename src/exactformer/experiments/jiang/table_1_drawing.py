"""The picture of jiang-table-1: scores by order for images and words, and who names what."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exactformer.experiments.engine.figure import subplots
from exactformer.experiments.engine.summary import Summary
from exactformer.experiments.jiang.table_1 import (
    AT_ONCE,
    CONTROL,
    FIRST,
    GUESS,
    MOVED,
    NAMERS,
    ORDERS,
    ORIGINAL,
    PUBLISHED,
    label,
    naming,
)
from exactformer.experiments.jiang.table_1_sizes import CAUSAL, LSTM, TRANSFORMER
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE

_ROWS = {
    ORIGINAL: "original",
    AT_ONCE: "moved",
    MOVED: "moved,\ntrained on",
    CONTROL: "original,\ntrained on",
}
_MODELS = {TRANSFORMER: ("transformer", BLUE), LSTM: ("LSTM", ORANGE)}
_NAMERS = {
    TRANSFORMER: ("transformer", BLUE),
    CAUSAL: ("transformer,\nlooks back", GREEN),
    LSTM: ("LSTM", ORANGE),
}


def draw(summary: Summary) -> Figure:
    """Draw accuracy and BLEU in both orders, and the share of tokens named at their place."""
    figure, (images, translation, named) = subplots(13, 4, 1, 3)
    _scores(images, summary, "images")
    images.set(title="Images", ylabel="share of test images named rightly")
    _scores(translation, summary, "translation")
    translation.set(title="Translation", ylabel="BLEU")
    _naming(named, summary)
    for axes in (images, translation, named):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)
        axes.grid(axis="x", visible=False)
    return figure


def _scores(axes: Axes, summary: Summary, task: str) -> None:
    for shift, (model, (name, colour)) in zip((-0.2, 0.2), _MODELS.items(), strict=True):
        rows = [summary.row(label(task, model, row)) for row in _ROWS]
        places = [place + shift for place in range(len(rows))]
        axes.bar(places, [row.mean for row in rows], 0.36, color=colour, alpha=0.85, label=name)
        for place, row in zip(places, rows, strict=True):
            axes.plot([place] * len(row.values), row.values, "_", color=INK, markersize=8)
    order = list(_ROWS)
    places = [order.index(row) - 0.2 for row in ORDERS]
    axes.plot(places, PUBLISHED[task], "D", color=GREY, markersize=6, label="print, other data")
    axes.set_xticks(range(len(_ROWS)), list(_ROWS.values()))


def _naming(axes: Axes, summary: Summary) -> None:
    for shift, order, alpha in ((-0.2, ORIGINAL, 0.35), (0.2, MOVED, 0.9)):
        rows = [summary.row(naming(model, order, FIRST)) for model in NAMERS]
        axes.bar(
            [place + shift for place in range(len(rows))],
            [row.mean for row in rows],
            0.36,
            color=[colour for _, colour in _NAMERS.values()],
            alpha=alpha,
        )
        axes.bar(0, 0, color=INK, alpha=alpha, label="original" if order == ORIGINAL else "moved")
    axes.axhline(summary[GUESS], color=INK, lw=1, ls="--", label="most frequent token")
    axes.set_xticks(range(len(NAMERS)), [name for name, _ in _NAMERS.values()])
    axes.set(title="An answer at every place", ylabel="share right of the tokens that are moved")
