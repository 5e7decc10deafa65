"""The page of a replayed launch."""

from warpsim.views.profile_page import Table, write_profile_page


def test_the_page_shows_all_and_escapes_it(tmp_path):
    page = tmp_path / "page.html"
    table = Table("Results", ["", "measured"], [["cycles <b>", "1,000"]])
    write_profile_page(page, "k<float>", ["a & b"], [table], {"selected": 0.25, "wait": 0.75}, {"selected": 1.0})
    text = page.read_text(encoding="utf-8")
    for part in ("k&lt;float&gt;", "a &amp; b", "cycles &lt;b&gt;", "1,000", "75.0 %", "100.0 %"):
        assert part in text
    assert "<b>" not in text and "http" not in text
