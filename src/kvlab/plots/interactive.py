"""The picture as a plotly figure, and as one HTML file that needs no network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go
import plotly.io
from plotly.subplots import make_subplots

from kvlab.plots.document import shell
from kvlab.plots.picture import Latencies, Picture, Series, picture
from kvlab.plots.series import SHOWN_SHARES, Floats, Line, nines
from kvlab.plots.theme import Theme
from kvlab.units import NS_PER_S, format_duration

if TYPE_CHECKING:
    from kvlab.results import Run

_COLUMNS: Final = 5000
"""Finer than a screen, so that a zoom shows more."""
_ROWS: Final = ((0.925, 0.99), (0.60, 0.865), (0.365, 0.535), (0.0, 0.235))
"""From top to bottom: preemptions, KV cache, queue and batch, latencies; bottom and top of each in the figure."""
_STYLE: Final = "html, body {{ margin: 0; height: 100%; background: {paper}; }}"


def page(run: Run, theme: Theme) -> str:
    """A whole HTML document, the drawing library included; the same for the same run."""
    plot = plotly.io.to_html(
        draw(run, theme),
        full_html=False,
        include_plotlyjs=True,
        div_id="kvlab",
        config={"displaylogo": False, "responsive": True},
    )
    return shell(run.scenario.name, _STYLE.format(paper=theme.paper), plot)


def draw(run: Run, theme: Theme) -> go.Figure:
    """The picture of a run; hover for values, drag to zoom all panels over time at once."""
    shown = picture(run, _COLUMNS)
    ttft, gap = shown.latencies
    figure = make_subplots(
        rows=4,
        cols=2,
        specs=[[{"colspan": 2}, None], [{"colspan": 2}, None], [{"colspan": 2}, None], [{}, {}]],
        horizontal_spacing=0.09,
        subplot_titles=("Preemptions", shown.kv_title, "Queue and batch", ttft.title, gap.title),
    )
    _draw_preemptions(figure, shown, theme)
    _draw_kv(figure, shown, theme)
    _draw_load(figure, shown, theme)
    for column, latencies in enumerate(shown.latencies, start=1):
        _draw_latencies(figure, latencies, theme, column)
    _lay_out(figure, shown, theme)
    return figure


def _draw_preemptions(figure: go.Figure, shown: Picture, theme: Theme) -> None:
    lanes = (
        ("recompute", shown.num_recomputes, shown.recomputes, "triangle-down", theme.recompute),
        ("swap", shown.num_swaps, shown.swaps, "diamond", theme.swap),
    )
    for lane, (name, _, times, symbol, colour) in enumerate(lanes):
        trace = go.Scatter(
            x=times,
            y=np.full(len(times), -lane),
            mode="markers",
            marker={"symbol": symbol, "size": 7, "color": colour},
            name=name,
            showlegend=False,
            hovertemplate=f"{name} at %{{x:.3f}} {shown.time_unit}<extra></extra>",
        )
        figure.add_trace(trace, row=1, col=1)
    labels = [f"{name} ({count:,})" for name, count, *_ in lanes]
    figure.update_yaxes(tickvals=[0, -1], ticktext=labels, range=[-1.6, 0.6], showgrid=False, row=1, col=1)


def _draw_kv(figure: go.Figure, shown: Picture, theme: Theme) -> None:
    reserved = go.Scatter(
        **_xy(shown.reserved.line),
        mode="lines",
        line={"color": theme.line, "width": 1},
        fill="tozeroy",
        fillcolor=theme.paper,
        fillpattern={"shape": "/", "fgcolor": theme.hatch, "bgcolor": theme.paper, "size": 6, "solidity": 0.25},
        name="reserved, not used",
        hovertemplate="reserved %{y:.1f} %<extra></extra>",
    )
    used = go.Scatter(
        **_xy(shown.used.line),
        mode="lines",
        line={"width": 0},
        fill="tozeroy",
        fillcolor=theme.used,
        name="used",
        hovertemplate="used %{y:.1f} %<extra></extra>",
    )
    figure.add_traces([reserved, used, *_faint(shown.reserved, theme.line)], rows=2, cols=1)
    figure.update_yaxes(title_text="KV cache (%)", range=[0, 102], tickvals=[0, 25, 50, 75, 100], row=2, col=1)


def _draw_load(figure: go.Figure, shown: Picture, theme: Theme) -> None:
    rows = [
        ("waiting requests", shown.waiting, theme.waiting),
        ("running sequences", shown.running, theme.running),
        ("swapped-out requests", shown.swapped, theme.swap),
    ]
    for name, series, colour in rows:
        if series is None:
            continue
        line = go.Scatter(
            **_xy(series.line),
            mode="lines",
            line={"color": colour, "width": 1.6},
            name=name,
            hovertemplate=f"%{{y:.3~g}} {name}<extra></extra>",
        )
        figure.add_traces([*_faint(series, colour), line], rows=3, cols=1)
    figure.update_yaxes(title_text="count", rangemode="tozero", tickformat=",", row=3, col=1)
    figure.update_xaxes(title_text=shown.time_title, row=3, col=1)


def _faint(series: Series, colour: str) -> list[go.Scatter]:
    """The trace of a restless run's peaks."""
    if series.peaks is None:
        return []
    line = {"color": colour, "width": 0.6}
    return [go.Scatter(**_xy(series.peaks), mode="lines", line=line, opacity=0.35, showlegend=False, hoverinfo="skip")]


def _draw_latencies(figure: go.Figure, latencies: Latencies, theme: Theme, column: int) -> None:
    seconds, share = latencies.line
    line = go.Scatter(
        x=seconds,
        y=nines(share),
        mode="lines",
        line={"color": theme.line, "width": 2},
        showlegend=False,
        customdata=100 * share,
        hovertemplate="%{customdata:.3f} % take at most %{x:.4g} s<extra></extra>",
    )
    percents = np.array([percent for percent, _ in latencies.marks])
    marks = go.Scatter(
        x=[value / NS_PER_S for _, value in latencies.marks],
        y=nines(percents / 100),
        mode="markers+text",
        marker={"color": theme.ink, "size": 6},
        text=[f"p{percent} {format_duration(value)} " for percent, value in latencies.marks],
        textposition="top left",
        textfont={"size": 12, "color": theme.ink},
        showlegend=False,
        hoverinfo="skip",
    )
    figure.add_traces([line, marks], rows=4, cols=column)
    shares = np.array(SHOWN_SHARES)
    figure.update_yaxes(
        tickvals=nines(shares), ticktext=[f"{100 * share:g}" for share in SHOWN_SHARES], range=[0, latencies.top],
        title_text="percentile" if column == 1 else None, row=4, col=column,
    )  # fmt: skip
    axis: dict[str, Any] = {
        "type": "log",
        "title_text": latencies.axis,
        "ticksuffix": " s",
        "minor": {"ticks": "outside"},
    }
    if len(seconds):
        low, high = np.log10(seconds[0]), np.log10(seconds[-1])
        decades = max(1.0, high - low)
        axis["range"] = [low - 0.35 * decades, high + 0.05 * decades]  # room for labels left of the first mark
        axis["dtick"] = 1 if decades > 1.5 else "D2"
    figure.update_xaxes(**axis, row=4, col=column)


def _lay_out(figure: go.Figure, shown: Picture, theme: Theme) -> None:
    figure.update_layout(
        template="none",
        title={
            "text": f"<b>{escape(shown.title)}</b><br><sub>{escape(shown.subtitle)}</sub>",
            "font": {"size": 19},
            "x": 0,
            "xref": "paper",
            "y": 0.975,
            "yanchor": "top",
        },
        font={"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 13, "color": theme.ink},
        paper_bgcolor=theme.paper,
        plot_bgcolor=theme.paper,
        hoverlabel={"bgcolor": theme.paper, "font": {"color": theme.ink}},
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.025, "yanchor": "bottom"},
        margin={"l": 125, "r": 30, "t": 125, "b": 60},
        height=880,
    )
    look = {"gridcolor": theme.grid, "linecolor": theme.muted, "zeroline": False, "tickfont": {"color": theme.muted}}
    figure.update_xaxes(**look, title_font={"size": 13}, title_standoff=6)
    figure.update_yaxes(**look, title_font={"size": 13}, title_standoff=10)
    for row in (1, 2, 3):
        figure.update_xaxes(matches="x", range=[0, shown.end or 1.0], showticklabels=row == 3, row=row, col=1)
    places = ((1, 1), (2, 1), (3, 1), (4, 1), (4, 2))
    for (row, column), title in zip(places, figure.layout.annotations, strict=True):
        figure.update_yaxes(domain=_ROWS[row - 1], row=row, col=column)
        left = figure.get_subplot(row, column).xaxis.domain[0]
        title.update(x=left, y=_ROWS[row - 1][1], xanchor="left", font={"size": 14, "color": theme.ink})
    if shown.arrivals_end is not None:
        for row in (1, 2, 3):
            figure.add_vline(shown.arrivals_end, line={"color": theme.ink, "width": 1, "dash": "dash"}, row=row, col=1)
        # a legend entry, so that the label never lies over data
        figure.add_trace(
            go.Scatter(
                x=[None],
                y=[None],
                mode="lines",
                line={"color": theme.ink, "width": 1, "dash": "dash"},
                name=shown.arrivals_end_label,
            ),
            row=3,
            col=1,
        )


def _xy(line: Line) -> dict[str, Floats]:
    return {"x": line[0], "y": line[1]}
