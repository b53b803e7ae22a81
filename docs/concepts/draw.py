"""The drawings of docs/concepts.md: `python docs/concepts/draw.py` writes them beside this file.

Each is a card with a ground of its own, so it can be read on a light page and on a dark one; where the reader's system
is dark, the card is too. Coordinates are pixels, 720 wide.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH = 720
CELL = 40

STYLE = """\
svg { font: 14px system-ui, "Liberation Sans", sans-serif; }
.card { fill: #ffffff; stroke: #d0d7de; }
text { fill: #1f2328; }
.small { font-size: 12px; fill: #59636e; }
.code { font-family: ui-monospace, "Liberation Mono", monospace; font-size: 13px; }
rect { stroke: #59636e; stroke-width: 1.2; fill: none; }
rect.ready { fill: #cfe8ff; }
rect.out { fill: #ffe3a3; }
rect.done { fill: #e6e8eb; stroke-dasharray: 3 2; }
rect.late { fill: #e3d5fb; }
rect.dead { fill: #ffd0cb; }
path { stroke: #59636e; stroke-width: 1.5; fill: none; }
.tip { fill: #59636e; stroke: none; }
@media (prefers-color-scheme: dark) {
  .card { fill: #161b22; stroke: #3d444d; }
  text { fill: #f0f6fc; }
  .small { fill: #b1bac4; }
  rect, path { stroke: #9198a1; }
  rect.ready { fill: #123f6b; }
  rect.out { fill: #614700; }
  rect.done { fill: #2a313a; }
  rect.late { fill: #432f74; }
  rect.dead { fill: #74211d; }
  .tip { fill: #9198a1; }
}
"""


class Drawing:
    """A card of some height, onto which things are put."""

    def __init__(self, title: str, height: int) -> None:
        self._title = title
        self._height = height
        self._parts: list[str] = []

    def box(self, x: float, y: float, label: str, kind: str = "", width: float = 120, height: float = CELL) -> None:
        """Put a rectangle with its label in the middle."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>')
        self.text(x + width / 2, y + height / 2 + 5, label, anchor="middle")

    def cells(self, x: float, y: float, cells: Iterable[tuple[str, str]]) -> None:
        """Put cells in a row, each a label and a kind."""
        for number, (label, kind) in enumerate(cells):
            self.box(x + number * CELL, y, label, kind, width=CELL)

    def text(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        """Put text with its base line there."""
        self._parts.append(f'<text class="{style}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>')

    def code(self, x: float, y: float, text: str, anchor: str = "start") -> None:
        """Put text in the letters of code."""
        self.text(x, y, text, "code", anchor)

    def small(self, x: float, y: float, text: str, anchor: str = "start") -> None:
        """Put a remark."""
        self.text(x, y, text, "small", anchor)

    def arrow(self, *points: tuple[float, float]) -> None:
        """Draw a line through the points, with a tip at the last one."""
        path = " L ".join(f"{x} {y}" for x, y in points)
        self._parts.append(f'<path d="M {path}" marker-end="url(#tip)"/>')

    def svg(self) -> str:
        """Return the file."""
        size = f'width="{WIDTH}" height="{self._height}" viewBox="0 0 {WIDTH} {self._height}"'
        tip = '<path class="tip" d="M 0 0 L 8 4 L 0 8 z"/>'
        marker = f'<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">{tip}</marker>'
        card = f'<rect class="card" x="1" y="1" width="{WIDTH - 2}" height="{self._height - 2}" rx="8"/>'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
                f"<title>{escape(self._title)}</title>",
                f"<style>\n{STYLE}</style>",
                f"<defs>{marker}</defs>",
                card,
                *self._parts,
                "</svg>\n",
            ]
        )


def topic(drawing: Drawing) -> None:
    """A topic with two partitions; keys choose one, and two groups read both."""
    drawing.text(40, 40, "publishers")
    drawing.code(40, 92, "KEY ada")
    drawing.code(40, 132, "KEY dan")
    drawing.code(40, 182, "no key")
    drawing.arrow((110, 88), (200, 88))
    drawing.arrow((110, 128), (200, 168))
    drawing.arrow((110, 174), (200, 100))
    drawing.arrow((110, 180), (200, 180))
    drawing.text(210, 40, "topic orders")
    drawing.box(200, 52, "", width=300, height=160)
    drawing.small(212, 138, "partition 0: ids 0-0, 0-1, …")
    drawing.cells(212, 80, [(f"0-{number}", "ready") for number in range(6)])
    drawing.small(212, 204, "partition 1: ids 1-0, 1-1, …")
    drawing.cells(212, 146, [(f"1-{number}", "ready") for number in range(4)])
    drawing.text(560, 40, "groups")
    for y, name in ((80, "default"), (146, "billing")):
        drawing.arrow((500, y + 20), (556, y + 20))
        drawing.box(560, y, name, width=120)
    drawing.small(700, 204, "each gets every message", anchor="end")
    drawing.small(40, 236, "The messages of a key are in one partition, in publish order.")


def groups(drawing: Drawing) -> None:
    """Two groups at different positions of one log."""
    states = {"billing": "dddodorr", "search": "dorrrrrr"}
    kinds = {"d": ("", "done"), "o": ("", "out"), "r": ("", "ready")}
    drawing.text(40, 58, "the log")
    drawing.cells(150, 34, [(str(number), "") for number in range(8)])
    drawing.small(490, 58, "stored once")
    for y, (name, letters) in zip((96, 152), states.items(), strict=True):
        drawing.text(40, y + 24, name)
        drawing.cells(150, y, [kinds[letter] for letter in letters])
    drawing.small(490, 120, "lag 4: two leased, two ready")
    drawing.small(490, 176, "lag 7: one leased, six ready")
    for x, (kind, text) in zip(
        (150, 300, 430), (("done", "acknowledged"), ("out", "leased"), ("ready", "ready")), strict=True
    ):
        drawing.box(x, 212, "", kind, width=18, height=18)
        drawing.small(x + 26, 226, text)


def life(drawing: Drawing) -> None:
    """The life of a message: ready, leased, and what ends a lease."""
    drawing.box(40, 130, "ready", "ready")
    drawing.box(300, 130, "leased", "out")
    drawing.box(560, 130, "gone", "done")
    drawing.box(300, 30, "delayed", "late")
    drawing.box(560, 250, "dead letter", "dead")
    drawing.code(185, 116, "RECEIVE")
    drawing.small(180, 166, "with a receipt")
    drawing.arrow((160, 145), (296, 145))
    drawing.code(472, 140, "ACK")
    drawing.arrow((420, 150), (556, 150))
    drawing.code(372, 106, "DACK seconds")
    drawing.arrow((360, 130), (360, 74))
    drawing.small(130, 44, "when it is due")
    drawing.arrow((300, 50), (100, 50), (100, 126))
    drawing.arrow((330, 170), (330, 212), (80, 212), (80, 174))
    drawing.code(96, 204, "NACK")
    drawing.small(140, 204, "to the front")
    drawing.arrow((350, 170), (350, 240), (60, 240), (60, 174))
    drawing.code(96, 232, "BACK")
    drawing.small(140, 232, "to the back")
    drawing.small(96, 264, "to the front also when its lease expires,")
    drawing.small(96, 280, "or its stream ends")
    drawing.arrow((390, 170), (390, 270), (556, 270))
    drawing.code(440, 212, "REJECT reason,")
    drawing.small(440, 230, "or after max_deliveries")
    drawing.arrow((620, 290), (620, 314), (20, 314), (20, 150), (36, 150))
    drawing.code(300, 306, "REDRIVE")


def order(drawing: Drawing) -> None:
    """Where messages of a group wait, in the order of delivery."""
    rows = [
        ("1", "front", ["a"], "", "NACK or an expired lease: newest first"),
        ("2", "delayed, and due", ["d", "e"], "late", "DACK, or a retry with a delay: by due time"),
        ("3", "back", ["b"], "", "BACK: after all that was committed before it"),
        ("4", "log", ["7", "8", "9"], "ready", "never delivered, in publish order"),
    ]
    for number, (rank, name, labels, kind, text) in enumerate(rows):
        y = 22 + number * 54
        drawing.text(32, y + 25, rank)
        drawing.text(60, y + 25, name)
        drawing.cells(200, y, [(label, kind) for label in labels])
        drawing.small(344, y + 25, text)


def lanes(drawing: Drawing) -> None:
    """A partition has a lane for each priority."""
    rows = [("high", "0.high-0", 2, "first"), ("normal", "0-0", 4, "next")]
    rows.append(("low", "0.low-0", 3, "last; each gets at least 1 of 32 deliveries"))
    for number, (name, first, count, text) in enumerate(rows):
        y = 22 + number * 56
        drawing.text(32, y + 25, name)
        drawing.cells(96, y, [("", "ready")] * count)
        drawing.code(276, y + 25, first + ", …")
        drawing.small(390, y + 25, text)
    drawing.small(32, 196, "A lane is created by its first message. Most topics have one.")


def delayed(drawing: Drawing) -> None:
    """A delayed message waits in the store until it is due."""
    drawing.code(32, 54, "PUB t hello DELAY 3600")
    drawing.arrow((215, 50), (256, 50))
    drawing.box(260, 30, "delayed", "late", width=130)
    drawing.small(260, 88, "on disk, without memory,")
    drawing.small(260, 104, "with its own id:")
    drawing.code(260, 122, "0-1700000060000-3")
    drawing.arrow((390, 50), (536, 50))
    drawing.small(402, 42, "when it is due")
    drawing.cells(540, 30, [("7", "ready"), ("8", "ready"), ("9", "late")])
    drawing.small(540, 88, "an ordinary message,")
    drawing.small(540, 104, "the last of the log")
    drawing.code(32, 168, "CANCEL t 0-1700000060000-3")
    drawing.small(260, 168, "removes it before it is due")


def retention(drawing: Drawing) -> None:
    """What a log keeps, and how it is read again."""
    kinds = ["", "", "done", "done", "done", "done", "out", "done", "ready", "ready", "ready"]
    drawing.small(60, 44, "reclaimed")
    drawing.small(150, 44, "acknowledged, retained")
    drawing.small(306, 44, "billing is not done with 6, 8, and later")
    drawing.cells(140, 60, [(str(number), kind) for number, kind in enumerate(kinds) if number >= 2])
    drawing.text(84, 85, "…", anchor="middle")
    drawing.code(526, 84, "end: 11")
    drawing.code(120, 146, "earliest: 2")
    drawing.arrow((160, 130), (160, 106))
    drawing.code(300, 146, "GROUP SEEK t billing 0-5")
    drawing.small(494, 146, "gets 5 and later again")
    drawing.arrow((292, 142), (280, 142), (280, 106))
    drawing.code(260, 186, "READ t 0 4")
    drawing.small(352, 186, "returns 4 and later; groups are not affected")
    drawing.arrow((252, 182), (240, 182), (240, 106))
    drawing.code(60, 226, "READ t 0 TIME ms")
    drawing.small(200, 226, "finds the offset by commit time, by binary search")


#: What is drawn, and how high it is.
DRAWINGS: dict[Callable[[Drawing], None], int] = {
    topic: 250,
    groups: 250,
    life: 340,
    order: 250,
    lanes: 210,
    delayed: 190,
    retention: 250,
}


def drawn() -> dict[str, str]:
    """Return every drawing by the name of its file."""
    files = {}
    for draw, height in DRAWINGS.items():
        drawing = Drawing((draw.__doc__ or "").rstrip("."), height)
        draw(drawing)
        files[f"{draw.__name__}.svg"] = drawing.svg()
    return files


def main() -> None:
    """Write them."""
    for name, svg in drawn().items():
        (Path(__file__).parent / name).write_text(svg)


if __name__ == "__main__":
    main()
