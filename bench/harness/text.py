"""Numbers and tables as people read them."""


def size_text(size):
    for unit, bytes_each in (("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= bytes_each and size % bytes_each == 0:
            return f"{size // bytes_each} {unit}"
    return f"{size} B"


def number(value):
    """Three significant digits, without an exponent."""
    if value is None:
        return "-"
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    if magnitude >= 0.1 or magnitude == 0:
        return f"{value:.2f}"
    return f"{value:.2g}" if magnitude >= 1e-4 else f"{value:.0e}"


def quantity(value, unit):
    """With a unit of a fitting scale."""
    if value is None:
        return "-"
    if unit == "us":
        for scale, name in ((1e6, "s"), (1e3, "ms")):
            if value >= scale:
                return f"{number(value / scale)} {name}"
        return f"{value:.3f} us" if value < 1 else f"{number(value)} us"
    if unit == "ms" and value >= 1000:
        return f"{number(value / 1000)} s"
    if unit == "msg/s":
        return f"{number(value / 1e6)} M/s"
    if unit == "KiB":
        return f"{number(value / 1024)} MiB"
    if unit in ("sockets", "messages", "wake-ups"):
        return f"{value:.0f}"
    return f"{number(value)} {unit}"


def spread(value, quartiles):
    """With its quartiles where there are any."""
    return number(value) + (f" ({number(quartiles[0])}..{number(quartiles[1])})" if quartiles and quartiles[0] != quartiles[1] else "")


def quantities(value, quartiles, unit):
    """The same with a unit, which is named once where it is that of all."""
    text = quantity(value, unit)
    if not quartiles or quartiles[0] == quartiles[1]:
        return text
    name = " " + text.rpartition(" ")[2]
    both = [quantity(one, unit) for one in quartiles]
    return f"{text} ({'..'.join(one.removesuffix(name) if all(other.endswith(name) for other in both) else one for one in both)})"


def plain_table(headings, rows):
    """Aligned columns: the first to the left, all others to the right."""
    widths = [max(len(line[i]) for line in [headings] + rows) for i in range(len(headings))]
    def line(cells):
        return "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                         for i, (cell, width) in enumerate(zip(cells, widths))).rstrip()
    return "\n".join([line(headings), "  ".join("-" * width for width in widths)] + [line(cells) for cells in rows])


def markdown_table(headings, rows, text_columns=(0,)):
    """Text to the left, numbers to the right."""
    marks = ["---" if i in text_columns else "---:" for i in range(len(headings))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [headings, marks] + rows)
