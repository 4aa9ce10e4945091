"""The page in a real browser: what is seen is what was given, whatever is chosen, and nothing is fetched."""

import base64
import io
import re

import matplotlib as mpl
import matplotlib.image
import numpy as np
import pytest

from operformer.runs.report.figures import INPUT
from operformer.runs.report.tables import Table, percent
from paper.page import Section, write_reproduction

FLOW = {"1x": (13, 7), "2x": (24, 11), "irregular": (8, 5)}  # axes of even sizes are graded
LINE = {"1x": (31,), "2x": (61,), "irregular": (20,)}
DRAWS = (5, 11, 2)
REASON = "takes uniform grids only"
WIDE_TABLE = Table("Wide", tuple(f"column number {k}" for k in range(20)), (("1.23%",) * 20,))
CANVASES = "[...document.querySelectorAll('.row:not([hidden]) .frame canvas')].map(c => c.toDataURL())"


@pytest.fixture(scope="module")
def exhibits(make_exhibit):
    uniform = {label: shape for label, shape in FLOW.items() if label != "irregular"}
    return [
        make_exhibit("flow", "A", 0.1, FLOW, DRAWS),
        make_exhibit("flow", "B", 0.003, uniform, DRAWS, absent={"irregular": REASON}),
        make_exhibit("line", "A", 0.1, LINE, DRAWS, inputs=("ramp", "steeper")),
        make_exhibit("line", "C", 0.02, LINE, DRAWS, inputs=("ramp", "steeper")),
    ]


@pytest.fixture(scope="module")
def address(exhibits, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    sections = [Section("one", "Section one", "Words. " * 300, (WIDE_TABLE,)), Section("two", "Section two")]
    write_reproduction("A page", "Some words.", sections, exhibits, path)
    return path.as_uri()


@pytest.fixture
def visit(browser, address):
    """Open the page; at the end nothing may have been complained about, and nothing fetched but the page."""
    contexts, complaints, requests = [], [], []

    def opened(choice="", width=1280):
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.on("request", lambda request: requests.append(request.url.partition("#")[0]))
        page.goto(address + choice)
        page.wait_for_selector("#explorer .panel", state="visible")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url for url in requests if not url.startswith("data:")} == {address}


def choose(page, **choices):
    """Choose in the first row and the controls above it."""
    for name, value in choices.items():
        if name == "sample":
            page.locator("[data-of=sample] button").nth(value).click()
        else:
            page.locator(f".panel [name={name}]").first.select_option(value)


def look(page):
    return tuple(page.evaluate(CANVASES))


def text(page, name, row=0):
    return page.locator(f".row [data-of={name}]").nth(row).inner_text()


def read_canvas(page, plot):
    """The pixels (height, width, 4) of a plot in the first row, 0 to 255."""
    coded = page.locator(f".plot.{plot} .frame canvas").first.evaluate("canvas => canvas.toDataURL()")
    picture = io.BytesIO(base64.b64decode(coded.removeprefix("data:image/png;base64,")))
    return np.rint(255 * mpl.image.imread(picture, format="png")).astype(int)


def wait_until(page, statement):
    """Until a statement in JavaScript holds; the page's own policy forbids Playwright's way of asking."""
    for _ in range(100):
        if page.evaluate(statement):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"waited in vain for {statement}")


def colours_at_points(page, plot, shown):
    """The colours (N, M, 3) of the pixels where the points of a grid lie."""
    pixels = read_canvas(page, plot)
    assert (pixels[..., 3] == 255).all()
    height, width = pixels.shape[:2]
    columns, rows = (at(points, count) for points, count in ((shown.x, width), (shown.y, height)))
    return pixels[height - 1 - rows[None, :], columns[:, None], :3]


def at(points, count):
    """The pixel of each point of an axis whose ends lie half a step beyond its first and last point."""
    low, high = points[0] - (points[1] - points[0]) / 2, points[-1] + (points[-1] - points[-2]) / 2
    return np.floor((points - low) / (high - low) * count).astype(int)


def assert_shares(colours, name, shares, atol):
    """Colours stand for shares of the scale, 0 to 1, as nearly as one of 256 colours can."""
    table = mpl.colormaps[name](np.arange(256), bytes=True)[:, :3]
    near = [table[np.rint(255 * np.clip(shares + off, 0, 1)).astype(int)] for off in (-atol, atol)]
    assert np.logical_or(*((colours == one).all(-1) for one in near)).all()


def test_the_page_opens_and_shows_the_first_sample(visit, exhibits):
    page = visit()
    assert page.locator(".row:visible").count() == 1
    assert text(page, "error") == f"relative L2 error {percent(exhibits[0].views['1x'].errors[0])}"
    assert text(page, "size") == "13 × 7 points"
    assert page.locator(".row .frame canvas").count() == 4
    for label in page.locator(".row .frame canvas").evaluate_all("all => all.map(c => c.ariaLabel)"):
        assert "A on the training grid" in label


CHOICES = [{"sample": 2}, {"grid": "2x"}, {"operator": "B"}, {"channel": "1"}, {"problem": "line"}]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: next(iter(choice)))
def test_each_choice_changes_the_pictures_and_back(visit, choice):
    page = visit()
    before = look(page)
    choose(page, **choice)
    after = look(page)
    assert after != before
    back = {"sample": 0, "grid": "1x", "operator": "A", "channel": "0", "problem": "flow"}
    choose(page, **{name: back[name] for name in choice})
    assert look(page) == before


@pytest.mark.parametrize(("sample", "grid", "channel"), [(0, "1x", 0), (2, "2x", 1), (1, "irregular", 0)])
def test_colours_are_those_of_the_values(visit, exhibits, sample, grid, channel):
    page = visit()
    choose(page, sample=sample, grid=grid, channel=str(channel))
    shown = exhibits[0].views[grid]
    u, z, prediction = shown.u[sample, 0], shown.z[sample, channel], shown.prediction[sample, channel]
    for plot, values, span in (("input", u, u), ("truth", z, z), ("prediction", prediction, z)):
        expected = (values - span.min()) / (span.max() - span.min())
        assert_shares(colours_at_points(page, plot, shown), "viridis", expected, atol=1e-4)


@pytest.mark.parametrize("operator", [0, 1])
def test_errors_are_shown_by_their_logarithm(visit, exhibits, operator):
    page = visit()
    choose(page, operator="AB"[operator])
    shown = exhibits[operator].views["1x"]
    # The scale of the problem: four decades below the largest error, A's 0.1.
    logarithm = np.log10(np.abs(shown.prediction[0, 0] - shown.z[0, 0]))
    assert_shares(colours_at_points(page, "error", shown), "magma", (logarithm + 5) / 4, atol=1e-4)
    ends = page.locator(".plot.error .ends span").all_inner_texts()
    assert [float(end) for end in ends] == pytest.approx([1e-5, 1e-3, 1e-1])
    page.locator("[name=steady]").uncheck()
    ends = page.locator(".plot.error .ends span").all_inner_texts()
    assert float(ends[2]) == pytest.approx((0.1, 0.003)[operator])


def test_pointing_reads_the_values(visit, exhibits):
    page = visit()
    choose(page, grid="2x", sample=1)
    shown = exhibits[0].views["2x"]
    box = page.locator(".plot.truth canvas").first.bounding_box()
    k, m = 19, 3
    across, up = ((at(axis, 3840)[n] + 0.5) / 3840 for axis, n in ((shown.x, k), (shown.y, m)))
    page.mouse.move(box["x"] + across * box["width"], box["y"] + (1 - up) * box["height"])
    number = r"(-?[\d.]+(?:e[+-]\d+)?)"
    found = re.fullmatch(
        rf"at \({number}, {number}\): input {number}, truth {number}, prediction {number}, error {number}",
        text(page, "readout"),
    )
    x, y, u, z, prediction, error = (float(group) for group in found.groups())
    assert (x, y) == (pytest.approx(shown.x[k], rel=5e-3), pytest.approx(shown.y[m], rel=5e-3))
    assert u == pytest.approx(shown.u[1, 0, k, m], rel=6e-4)
    assert z == pytest.approx(shown.z[1, 0, k, m], rel=6e-4)
    assert prediction == pytest.approx(shown.prediction[1, 0, k, m], rel=6e-4)
    assert error == pytest.approx(shown.prediction[1, 0, k, m] - shown.z[1, 0, k, m], rel=6e-3)
    page.mouse.move(5, 5)
    assert text(page, "readout") == "Point at a picture to read its values."


def test_curves_go_through_their_values(visit, exhibits):
    page = visit()
    choose(page, problem="line", sample=1)
    assert text(page, "error") == f"relative L2 error {percent(exhibits[2].views['1x'].errors[1])}"
    assert text(page, "size") == "31 points"
    pixels = read_canvas(page, "input")
    height, width = pixels.shape[:2]
    ink = np.abs(pixels[..., :3] - [int(INPUT[k : k + 2], 16) for k in (1, 3, 5)]).sum(-1) < 40
    weights = np.where(ink, pixels[..., 3], 0)[: height - 24, np.rint(np.linspace(0.2, 0.8, 7) * width).astype(int)]
    heights = (np.arange(height - 24) @ weights) / weights.sum(0)
    slopes = np.diff(heights)  # the input is a ramp
    assert (slopes < -5).all()
    np.testing.assert_allclose(slopes, slopes.mean(), atol=1.5)
    before = look(page)
    assert len(before) == 3
    for choice in ({"input": "1"}, {"channel": "1"}, {"grid": "irregular"}, {"operator": "C"}):
        choose(page, **choice)
        assert look(page) != before
        before = look(page)


def test_the_errors_of_all_operators_lead_to_their_pictures(visit, exhibits):
    page = visit()
    choose(page, sample=2)
    page.get_by_role("button", name="B, 2 × resolution:").click()
    assert text(page, "error") == f"relative L2 error {percent(exhibits[1].views['2x'].errors[2])}"
    assert page.locator(".row [name=operator]").first.input_value() == "B"
    assert page.locator(".row [name=grid]").first.input_value() == "2x"
    assert page.locator(".matrix button[aria-pressed=true]").inner_text() == percent(exhibits[1].views["2x"].errors[2])


def test_a_grid_that_an_operator_lacks_cannot_be_chosen(visit):
    page = visit()
    choose(page, grid="irregular")
    choose(page, operator="B")
    assert REASON in page.locator("[data-of=status]").inner_text()
    assert page.locator(".row [name=grid]").first.input_value() == "1x"
    option = page.locator(".row [name=grid] option").filter(has_text="irregular")
    assert option.is_disabled()
    assert REASON in option.inner_text()
    assert page.get_by_role("button", name=f"B, irregular grid: {REASON}").is_disabled()
    assert page.locator("[data-of=absent] li").all_inner_texts() == [f"B, irregular grid: {REASON}"]


def test_arrow_keys_go_through_the_samples(visit):
    page = visit()
    pressed = page.locator("[data-of=sample] button[aria-pressed=true]")
    seen = {look(page)}
    for key, expected in (("ArrowRight", "2"), ("ArrowRight", "3"), ("ArrowRight", "1"), ("ArrowLeft", "3")):
        page.keyboard.press(key)
        assert pressed.inner_text() == expected
        seen.add(look(page))
    assert len(seen) == 3
    page.locator("[name=problem]").focus()
    page.keyboard.press("Shift+ArrowRight")
    assert pressed.inner_text() == "3"


def test_two_can_be_compared_on_one_scale(visit, exhibits):
    page = visit()
    page.locator("[name=second]").check()
    assert page.locator(".row:visible").count() == 2
    page.locator(".row.second [name=grid]").select_option("2x")
    assert [text(page, "size", row) for row in (0, 1)] == ["13 × 7 points", "24 × 11 points"]
    assert text(page, "error", 1) == f"relative L2 error {percent(exhibits[1].views['2x'].errors[0])}"
    page.locator("[name=steady]").uncheck()
    for plot in ("input", "truth", "prediction", "error"):
        one, other = (page.locator(f".row.{row} .plot.{plot} .ends").inner_text() for row in ("first", "second"))
        assert one == other
    page.locator("[name=second]").uncheck()
    assert page.locator(".row:visible").count() == 1


def test_the_address_leads_back_to_the_view(visit):
    page = visit()
    choose(page, grid="2x", sample=2, channel="1")
    page.locator("[name=second]").check()
    wait_until(page, "location.hash.includes('operator1=B') && location.hash.includes('grid=2x')")
    again = visit(page.evaluate("location.hash"))
    assert look(again) == look(page)
    assert len(look(page)) == 8
    assert again.locator("[name=second]").is_checked()
    choose(page, problem="line")
    wait_until(page, "location.hash.includes('problem=line')")
    again.evaluate("hash => { location.hash = hash }", page.evaluate("location.hash"))
    again.wait_for_selector(".row .curves")
    assert look(again) == look(page)


@pytest.mark.parametrize(
    "choice",
    ["#explore&", "#explore&problem=constructor&operator=toString&grid=constructor&sample=-7&channel=1e9&input=x",
     "#explore&operator1=%00&grid1=__proto__", "#two"],
)  # fmt: skip
def test_an_address_that_leads_nowhere_shows_what_there_is(visit, choice):
    page = visit(choice)
    assert text(page, "error").startswith("relative L2 error")
    assert look(page)[:4] == look(visit())


@pytest.mark.parametrize("problem", ["flow", "line"])
def test_a_narrow_screen_is_not_overflown(visit, problem):
    page = visit(f"#explore&problem={problem}&operator1=A", width=400)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    boxes = page.locator(".row .frame canvas").evaluate_all("all => all.map(c => c.getBoundingClientRect().toJSON())")
    assert len(boxes) == {"flow": 8, "line": 6}[problem]
    assert all(box["left"] > 0 and box["right"] < 400 and box["width"] > 150 for box in boxes)
    table = page.get_by_role("region", name="Wide")
    assert table.evaluate("box => box.scrollWidth > box.clientWidth")
