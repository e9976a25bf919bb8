"""SVG plots: lines over a logarithmic size, and panels of bars. Colours and markers differ for every MPI, so that the plots
can be read without colour too."""

import math
from xml.sax.saxutils import escape

from .plan import COC_HOSTS, COC_RANKS, COC_WAYS, COC_WIRES, COMPOSITE, UDP_ALONE, UDP_BETWEEN, coc_variant, mcast_members
from .record import kind
from .text import quantity, size_text

COLOURS = {"ours": "#0072b2", "mpich": "#d55e00", "openmpi": "#009e73", "same-source": "#cc79a7",
           COMPOSITE: "#0072b2", UDP_BETWEEN: "#e69f00", UDP_ALONE: "#d55e00",
           "mcast": "#0072b2", "bcast": "#009e73", "create": "#d55e00", "send": "#e69f00"}
MARKERS = {"ours": "circle", "mpich": "square", "openmpi": "triangle", "same-source": "diamond",
           "mcast": "circle", "bcast": "square", "create": "triangle", "send": "diamond"}
FOREMOST = ("ours", "mcast")
WAYS = {"mcast": "MPIX_Mcast", "bcast": "MPI_Bcast, ready communicator", "create": "create, bcast, free", "send": "MPI_Send to each"}
INK, FAINT, GRID, LIMIT = "#222222", "#666666", "#e4e4e4", "#8a8a8a"


class Drawing:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self._parts = []

    def add(self, text):
        self._parts.append(text)

    def line(self, x1, y1, x2, y2, colour, width=1.0, dashes=None):
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                 f'stroke-width="{width}"{dashed}/>')

    def text(self, x, y, content, size=12, colour=INK, anchor="start", weight="normal", rotate=None):
        turned = f' transform="rotate({rotate} {x:.1f} {y:.1f})"' if rotate is not None else ""
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
                 f'font-weight="{weight}"{turned}>{escape(content)}</text>')

    def rectangle(self, x, y, width, height, colour):
        self.add(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>')

    def path(self, points, colour, width):
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.add(f'<polyline points="{steps}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>')

    def marker(self, x, y, shape, colour, radius=3.6):
        style = f'fill="{colour}" stroke="#ffffff" stroke-width="0.8"'
        if shape == "circle":
            self.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" {style}/>')
        elif shape == "square":
            self.add(f'<rect x="{x - radius:.1f}" y="{y - radius:.1f}" width="{2 * radius}" height="{2 * radius}" {style}/>')
        elif shape == "diamond":
            r = radius * 1.3
            self.add(f'<polygon points="{x:.1f},{y - r:.1f} {x + r:.1f},{y:.1f} {x:.1f},{y + r:.1f} {x - r:.1f},{y:.1f}" {style}/>')
        else:
            r = radius * 1.25
            self.add(f'<polygon points="{x:.1f},{y - r:.1f} {x + r:.1f},{y + r * 0.8:.1f} {x - r:.1f},{y + r * 0.8:.1f}" '
                     f'{style}/>')

    def finish(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
                f'height="{self.height}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n'
                f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>\n' + "\n".join(self._parts) + "\n</svg>\n")


def log_ticks(low, high):
    """1, 2, 5 of every decade inside the range, with whether it is a power of ten."""
    ticks = []
    for decade in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for digit in (1, 2, 5):
            value = digit * 10.0 ** decade
            if low * 0.999 <= value <= high * 1.001:
                ticks.append((value, digit == 1))
    return ticks


def log_bounds(values):
    """Rounded outwards to 1, 2 or 5."""
    low, high = min(values), max(values)
    steps = [digit * 10.0 ** decade for decade in range(-6, 10) for digit in (1, 2, 5)]
    below = max(step for step in steps if step <= low)
    above = min(step for step in steps if step >= high)
    return (below, above) if below < above else (below / 10, above)


def tick_text(value):
    return f"{value:g}" if value < 1e6 else f"{value:.0e}"


def axis_time(microseconds):
    """A power of ten, in a unit of a fitting scale."""
    for scale, unit in ((1e6, "s"), (1e3, "ms"), (1, "us"), (1e-3, "ns")):
        if microseconds >= scale * 0.999:
            return f"{microseconds / scale:.0f} {unit}"
    return f"{microseconds:g} us"


def legend(drawing, x, y, entries):
    """One row; `entries` are (title, colour, marker) with marker None for a dashed limit."""
    for title, colour, marker in entries:
        drawing.line(x, y - 4, x + 26, y - 4, colour, 2.2 if marker else 1.4, None if marker else "5 4")
        if marker:
            drawing.marker(x + 13, y - 4, marker, colour)
        drawing.text(x + 32, y, title)
        x += 32 + 7.0 * len(title) + 22


def heading(drawing, title, subtitle, left):
    drawing.text(left, 26, title, size=16, weight="bold")
    drawing.text(left, 45, subtitle, size=11.5, colour=FAINT)


def by_size(title, subtitle, axis, series, limits):
    """`series`: {mpi: (title, [(size, value)])}; `limits`: [(title, [(size, value)])], one point means: for all sizes."""
    width, height, left, right, top, bottom = 820, 480, 70, 24, 92, 52
    drawing = Drawing(width, height)
    heading(drawing, title, subtitle, left)
    legend(drawing, left, 72, [(name, COLOURS[mpi], MARKERS[mpi]) for mpi, (name, _) in series.items()]
           + [(name, LIMIT, None) for name, _ in limits])

    sizes = [size for _, points in series.values() for size, _ in points]
    values = [value for _, points in series.values() for _, value in points]
    values += [value for _, points in limits for _, value in points]
    x_low, x_high = math.log2(min(sizes)), math.log2(max(sizes))
    y_low, y_high = log_bounds(values)

    def x_of(size):
        return left + (math.log2(size) - x_low) / max(1.0, x_high - x_low) * (width - left - right)

    def y_of(value):
        return height - bottom - math.log(value / y_low) / math.log(y_high / y_low) * (height - top - bottom)

    ticks = log_ticks(y_low, y_high)
    crowded = len(ticks) > 12
    for value, whole in ticks:
        drawing.line(left, y_of(value), width - right, y_of(value), "#cfcfcf" if whole else GRID)
        if whole or not crowded:
            drawing.text(left - 8, y_of(value) + 4, tick_text(value), size=11, anchor="end", colour=INK if whole else FAINT)
    step = 1 if x_high - x_low <= 12 else 2
    for power in range(math.ceil(x_low), math.floor(x_high) + 1):
        if (math.floor(x_high) - power) % step == 0:
            x = x_of(2 ** power)
            drawing.line(x, top, x, height - bottom, GRID)
            drawing.text(x, height - bottom + 18, size_text(2 ** power), size=11, anchor="middle")
    drawing.line(left, height - bottom, width - right, height - bottom, INK)
    drawing.text((left + width - right) / 2, height - 12, "message size", anchor="middle", colour=FAINT)
    drawing.text(18, (top + height - bottom) / 2, axis, anchor="middle", colour=FAINT, rotate=-90)

    for _, points in limits:
        if len(points) == 1:
            drawing.line(left, y_of(points[0][1]), width - right, y_of(points[0][1]), LIMIT, 1.4, "5 4")
        for (size, value), (next_size, next_value) in zip(points, points[1:]):
            drawing.line(x_of(size), y_of(value), x_of(next_size), y_of(next_value), LIMIT, 1.4, "5 4")
    for mpi, (_, points) in reversed(series.items()):       # the first is drawn last, on top
        drawing.path([(x_of(size), y_of(value)) for size, value in points], COLOURS[mpi], 2.6 if mpi in FOREMOST else 1.8)
        for size, value in points:
            drawing.marker(x_of(size), y_of(value), MARKERS[mpi], COLOURS[mpi])
    return drawing.finish()


def panels(title, subtitle, axis, names, groups):
    """`groups`: [(panel title, [([line, ...] under the group, {mpi: value})])]; all panels share one logarithmic axis."""
    bar, gap, group_gap, panel_gap, left, right, top, bottom, height = 19, 2, 16, 30, 70, 20, 118, 52, 500
    group_gap = max(group_gap, 66 - len(names) * (bar + gap))       # room for the words below
    group_width = len(names) * (bar + gap) + group_gap
    widths = [max(len(inside) * group_width + group_gap, 120) for _, inside in groups]
    width = max(700, left + sum(widths) + panel_gap * (len(groups) - 1) + right)
    drawing = Drawing(width, height)
    heading(drawing, title, subtitle, left)
    legend_x = left
    for mpi, name in names.items():
        drawing.rectangle(legend_x, 62, 14, 14, COLOURS[mpi])
        drawing.text(legend_x + 20, 74, name)
        legend_x += 20 + 7.0 * len(name) + 22

    values = [value for _, inside in groups for _, by_mpi in inside for value in by_mpi.values() if value is not None]
    y_low = 10.0 ** math.floor(math.log10(min(values) * 0.7))
    y_high = 10.0 ** math.ceil(math.log10(max(values) * 1.2))

    def y_of(value):
        return height - bottom - math.log(value / y_low) / math.log(y_high / y_low) * (height - top - bottom)

    x = left
    for (panel_title, inside), panel_width in zip(groups, widths):
        for value, whole in log_ticks(y_low, y_high):
            if whole:
                drawing.line(x, y_of(value), x + panel_width, y_of(value), "#d8d8d8")
                if x == left:
                    drawing.text(left - 8, y_of(value) + 4, axis_time(value), size=11, anchor="end")
        drawing.text(x + panel_width / 2, top - 18, panel_title, size=13, anchor="middle", weight="bold")
        at = x + group_gap
        for group_words, by_mpi in inside:
            for mpi in names:
                value = by_mpi.get(mpi)
                if value is not None:
                    y = y_of(value)
                    drawing.rectangle(at, y, bar, height - bottom - y, COLOURS[mpi])
                    label = quantity(value, "us")
                    inside_bar = height - bottom - y > 6.5 * len(label) + 8
                    drawing.text(at + bar / 2 + 4, y + 5 if inside_bar else y - 5, label, size=10.5,
                                 colour="#ffffff" if inside_bar else INK, anchor="end" if inside_bar else "start", rotate=-90)
                at += bar + gap
            for i, word in enumerate(group_words):
                drawing.text(at - len(names) * (bar + gap) / 2, height - bottom + 18 + 15 * i, word, size=11.5,
                             colour=FAINT if i else INK, anchor="middle")
            at += group_gap
        drawing.line(x, height - bottom, x + panel_width, height - bottom, INK)
        x += panel_width + panel_gap
    drawing.text(18, (top + height - bottom) / 2, axis, anchor="middle", colour=FAINT, rotate=-90)
    return drawing.finish()


def all_plots(summary, mpis, machines):
    """{file name: SVG text}; a plot without data is left out. `machines` are those on which each program ran."""
    names = {mpi.name: mpi.title for mpi in mpis}

    def setting(bench):
        machine = machines[bench]
        return f"{machine['cpu']} ({machine['architecture']}), {machine['cores_used']} cores; medians of the repetitions"

    def series(bench, metric, least=1):
        found = {}
        for mpi, name in names.items():
            points = [(key[2], summary.value(mpi, key)) for key in summary.keys(bench, metric)
                      if key[2] >= least and summary.value(mpi, key)]
            if points:
                found[mpi] = (name, sorted(points))
        return found

    def limit(title, metric, of, within=None, bench="limits"):
        if of not in machines or bench not in machines or kind(machines[of]) != kind(machines[bench]):
            return []       # another machine has other limits
        points = sorted((key[2], summary.value("machine", key)) for key in summary.keys(bench, metric))
        if within:
            points = [point for point in points if within[0] <= point[0] <= within[1]]
        return [(title, points)] if points else []

    plots = {}
    for prefix, bench, where, latency_limit, bandwidth_limit in (
            ("", "pingpong", "2 ranks", limit("core-to-core flag", "flag", "pingpong"), limit("one CMA call", "cma", "pingpong", (1024, 4 << 20))),
            ("net_", "net_pingpong", "2 ranks on 2 hosts", limit("raw UDP", "udp", "net_pingpong", bench="net_limits"),
             limit("raw UDP stream", "stream", "net_pingpong", bench="net_limits")),
            ("ucx_", "net_ucx", "2 ranks on 2 hosts, UCX over TCP", [], [])):
        latency, bandwidth = series(bench, "latency"), series(bench, "bandwidth")
        if latency:
            plots[f"{prefix}latency.svg"] = by_size(f"One-way time, {where} (lower is better)", setting(bench), "microseconds", latency,
                                                    latency_limit)
        if bandwidth:
            plots[f"{prefix}bandwidth.svg"] = by_size(f"Ping-pong bandwidth, {where} (higher is better)", setting(bench), "GB/s",
                                                      bandwidth, bandwidth_limit)
    groups = []
    for ranks in sorted({key[3] for key in summary.keys("coll")}):
        inside = []
        for key in summary.keys("coll"):
            if key[3] == ranks:
                words = [key[1]] + ([size_text(key[2])] if key[2] else [])
                inside.append((words, {mpi: summary.value(mpi, key) for mpi in names}))
        groups.append((f"{ranks} ranks", inside))
    if groups:
        plots["collectives.svg"] = panels("Collectives, time per operation (lower is better, logarithmic)", setting("coll"),
                                          "time per operation", names, groups)
    for bench, where in (("mcast", ""), ("net_mcast", " on 4 hosts")):
        ranks = max((key[3] for key in summary.keys(bench) if key[1].startswith("mcast, ")), default=0)
        variant = next(iter(mcast_members(ranks)), "") if ranks else ""
        ways = {way: (title, sorted((key[2], summary.value("ours", key)) for key in summary.keys(bench, f"{way}, {variant}")
                                    if key[3] == ranks and summary.value("ours", key))) for way, title in WAYS.items()}
        ways = {way: found for way, found in ways.items() if found[1]}
        if "mcast" in ways:
            plots[f"{bench}.svg"] = by_size(f"One to {variant}, {ranks} ranks{where} (lower is better)", setting(bench),
                                            "microseconds until the sender knows", ways, [])
    groups = []
    for wires in COC_WIRES:
        inside = []
        for bench, metric, words in (("net_jacobi", "time", ["Jacobi"]), ("net_alltoall", "alltoall", ["all-to-all"])):
            for size in sorted({key[2] for key in summary.keys(bench)}):
                values = {way: summary.value("ours", key) for way in COC_WAYS
                          for key in summary.keys(bench, f"{metric}, {coc_variant(wires, way)}") if key[2] == size}
                inside.append((words + ([size_text(size)] if size else []), values))
        if inside:
            groups.append((wires, inside))
    if groups:
        plots["coc.svg"] = panels(f"A cluster of clusters, {COC_RANKS} ranks on {len(COC_HOSTS)} hosts (lower is better)", setting("net_jacobi" if "net_jacobi" in machines else "net_alltoall"),
                                  "time", {way: way for way in COC_WAYS}, groups)
    return plots
