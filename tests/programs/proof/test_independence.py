"""The proof of programs believes no search, and imports none."""

from tests.test_layers import ROOT, closure

SEARCH = ("analysis", "aggregates", "differences", "selectors", "sets", "knowledge", "finding")


def test_a_proof_imports_nothing_of_the_search() -> None:
    proofs = (ROOT / "programs/proof").rglob("*.py")
    known = {path for proof in proofs for path in closure(proof)}
    searches = {ROOT / f"programs/{name}.py" for name in SEARCH}
    assert all(path.is_file() for path in searches)
    assert not known & searches
