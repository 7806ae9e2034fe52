import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import sympy

from exactformer.errors import InputError
from exactformer.learning.laws import intervals
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.normal(size=(300, 3)), columns=["a", "Mass <kg>", "idle"])
    y = 2 * X["a"] ** 2 - X["a"] * X["Mass <kg>"] + 5 + 0.1 * generator.normal(size=300)
    return X, pd.Series(y, name="force & torque")


@pytest.fixture(scope="module")
def law(data):
    return PolynomialAttentionRegressor(2).fit(*data)


def test_the_formula_with_intervals_says_what_the_table_says(law):
    text = law.with_intervals()
    found = re.findall(r"\(([\d.]+) ± ([\d.]+)\)", text)
    half = (law.coef_table_.upper - law.coef_table_.lower) / 2
    for (number, margin), row, exact in zip(found, law.coef_table_.itertuples(), half, strict=True):
        assert float(margin) == pytest.approx(exact, rel=0.05)
        assert float(number) == pytest.approx(abs(row.coefficient), abs=float(margin) / 10)
    assert " a Mass_kg + (" in text
    assert " - (" in text
    assert r"\pm" in law.with_intervals("latex")
    assert r"\mathrm{Mass\_kg}" in law.with_intervals("latex")


def test_sympy_has_intervals_for_coefficients(law):
    expression = law.with_intervals("sympy")
    a, mass = sympy.symbols("a Mass_kg")
    assert expression.free_symbols == {a, mass}
    bounds = expression.subs({a: 1, mass: 0})
    rows = law.coef_table_.set_index("term").loc[["a^2", "1"]]
    ends = (rows.lower.sum(), rows.upper.sum())
    assert (float(bounds.min), float(bounds.max)) == pytest.approx(ends)
    with pytest.raises(InputError, match="choose one of text, latex, sympy"):
        law.with_intervals("word")


def test_no_interval_is_no_interval():
    table = pd.DataFrame(
        {
            "term": ["x", "1"],
            "coefficient": [-0.5, 3.0],
            "lower": [np.nan] * 2,
            "upper": [np.nan] * 2,
        }
    )
    assert intervals.text(table) == "-0.5 x + 3"
    assert intervals.text(table[:0]) == intervals.latex(table[:0], {}) == "0"
    assert "<mn>0</mn>" in intervals.mathml(table[:0], "y")


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.sources, self.words = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.sources += [v for k, v in attributes if k in ("src", "href")]

    def handle_data(self, data):
        self.words += data


def test_the_page_needs_nothing_else_and_escapes_names(law, data, tmp_path):
    law.save_report(tmp_path / "law.html", *data)
    text = (tmp_path / "law.html").read_text()
    page = Page(text)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    assert len(page.sources) == 2
    assert not {"script", "link", "kg"} & set(page.tags)
    assert "The law of force & torque" in page.words
    assert "Mass_kg is “Mass <kg>”" in page.words
    assert "not in the law" in page.words
    assert f"force & torque = {law.with_intervals()}" in page.words


def test_several_outputs_have_a_section_each(data, tmp_path):
    X, y = data
    both = PolynomialAttentionRegressor(2).fit(X, pd.DataFrame({"up": y, "still": 0 * y}))
    both.save_report(tmp_path / "law.html", X, np.column_stack([y, 0 * y]))
    page = Page((tmp_path / "law.html").read_text())
    assert page.tags.count("section") == 3
    assert page.words.count("=") >= 2
    assert "still = 0" in page.words
