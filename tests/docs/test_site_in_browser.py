"""The site as it is read: from a disk, in both schemes, on a wide screen and on a narrow one."""

import io

import pytest
from matplotlib import image

pytestmark = pytest.mark.pages

NARROW, WIDE = 400, 1280
FIGURES = "[...document.querySelectorAll('article img')].map(i => [i.naturalWidth, i.getBoundingClientRect().right])"
FORMULAS = "[...document.querySelectorAll('article math')].map(m => m.getBoundingClientRect().height)"


@pytest.fixture
def open_page(browser):
    """A page in a scheme; at the end nothing may have been complained about, and nothing fetched from outside."""
    contexts, complaints, outside = [], [], []

    def opened(scheme="light"):
        context = browser.new_context(viewport={"width": NARROW, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append((page.url, message.text)))
        page.on("pageerror", lambda error: complaints.append((page.url, str(error))))
        page.on("request", lambda request: _note(request.url, outside))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert outside == []


def _note(address, outside):
    if not address.startswith(("file:", "data:", "about:")):
        outside.append(address)


def test_every_page_opens_and_fits(open_page, pages):
    page, figures, formulas = open_page(), 0, 0
    for path in pages:
        page.set_viewport_size({"width": NARROW, "height": 900})
        page.goto(path.as_uri(), wait_until="load")
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW, path
        figures += check_figures(page, NARROW)
        heights = page.evaluate(FORMULAS)
        assert all(height > 5 for height in heights), path
        formulas += len(heights)
        page.set_viewport_size({"width": WIDE, "height": 900})
        page.wait_for_function(f"document.documentElement.scrollWidth <= {WIDE}", timeout=5000)  # search folds away
    assert figures > 15
    assert formulas > 60


def check_figures(page, width):
    """They were loaded and do not reach beyond the page; how many there are."""
    shown = page.evaluate(FIGURES)
    for natural, right in shown:
        assert natural > 100, page.url
        assert right <= width, page.url
    return len(shown)


def test_a_figure_follows_the_scheme_of_its_page(open_page, site):
    """Also when the reader chooses another one than the system's."""
    brightness = {}
    for system, chosen in (("light", "slate"), ("dark", "slate"), ("dark", "default")):
        page = open_page(system)
        page.goto((site / "operators" / "tno.html").as_uri(), wait_until="load")
        page.evaluate(f"document.body.dataset.mdColorScheme = '{chosen}'")
        page.wait_for_timeout(200)
        brightness[system, chosen] = ink_of(page.locator("article img").first.screenshot())
    assert brightness["light", "slate"] == brightness["dark", "slate"] > 150
    assert brightness["dark", "default"] < 80


def ink_of(png):
    """The grey value of what stands out most from the background, which is the first pixel."""
    grey = image.imread(io.BytesIO(png), format="png")[..., :3].mean(-1) * 255
    return round(float(grey.flat[abs(grey - grey[0, 0]).argmax()]))


def test_search_finds_a_docstring_from_a_disk(open_page, site):
    page = open_page()
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.goto((site / "api" / "domain.html").as_uri())
    page.keyboard.press("s")
    page.locator("[data-md-component=search-query]").press_sequentially("voronoi_weights")
    first = page.locator(".md-search-result__article").first
    first.wait_for()
    assert "voronoi_weights" in page.locator(".md-search-result__list").inner_text()


def test_a_wide_formula_scrolls_by_itself(open_page, site):
    page = open_page()
    page.goto((site / "mathematics.html").as_uri())
    widths = page.evaluate("[...document.querySelectorAll('.formula')].map(f => [f.scrollWidth, f.clientWidth])")
    assert all(client <= NARROW for _, client in widths)
    assert any(scroll > client for scroll, client in widths)
