"""The documents are built as pages without a complaint, and what is wrong with a document is a complaint."""

import importlib
import inspect
import re

import pytest

from tools.build_docs import BuildFailed, build
from tools.build_docs_pages import PUBLIC_MODULES, BadDocuments, exported_names, navigation, with_copies


@pytest.fixture
def site(tmp_path):
    """Where pages are built."""
    pytest.importorskip("mkdocs", reason="needs the Python package mkdocs")
    pytest.importorskip("mkdocstrings", reason="needs the Python package mkdocstrings[python]")
    return tmp_path / "site"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_pages_are_built_with_the_reference_and_nothing_from_the_network(site):
    assert build(site) > 20
    for module in PUBLIC_MODULES:
        text = (site / "reference" / f"{module}.html").read_text(encoding="utf-8")
        assert [name for name in exported_names(module) if f'id="{module}.{name}"' not in text] == []
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="(https?:|//)', page.read_text(encoding="utf-8"))
        assert (page.name, loaded) == (page.name, [])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_links_that_lead_nowhere_are_errors(site, tmp_path):
    documents = tmp_path / "docs"
    documents.mkdir()
    (documents / "index.md").write_text(
        "# Index\n\n## All\n\n- [there](there.md)\n- [gone](gone.md)\n- [anchor](there.md#nowhere)\n- ![p](no.png)\n"
    )
    (documents / "there.md").write_text("# There\n")
    with pytest.raises(BuildFailed) as failed:
        build(site, documents, modules=())
    for missing in ("gone.md", "#nowhere", "no.png"):
        assert missing in str(failed.value)
    assert len(str(failed.value).splitlines()) == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_document_that_nothing_links_to_is_an_error_of_the_build(site, tmp_path):
    documents = tmp_path / "docs"
    documents.mkdir()
    (documents / "index.md").write_text("# Index\n")
    (documents / "lost.md").write_text("# Lost\n")
    with pytest.raises(BuildFailed, match=r"docs/lost\.md: no document links to it"):
        build(site, documents, modules=())


def test_the_navigation_follows_the_index_and_takes_in_the_rest():
    written = {
        "index.md": "# All\n\n## How to\n\n- [a](how-to/a.md)\n\n## Guides\n\n[b](b.md) [again](how-to/a.md)\n",
        "how-to/a.md": "[c](../c.md#part) and [outside](../../README.md)",
        "b.md": "",
        "c.md": "",
        "decisions/0001-x.md": "",
    }
    found = navigation(written, "see [docs/decisions](docs/decisions)")
    assert found[:-1] == [
        {"Seamark": "index.md"},
        {"How to": ["how-to/a.md"]},
        {"Guides": ["b.md"]},
        {"More": ["c.md"]},
        {"Decisions": ["decisions/0001-x.md"]},
    ]
    with pytest.raises(BadDocuments, match=r"decisions/0001-x\.md"):
        navigation(written, "no links")


def test_links_out_of_the_documents_lead_to_copies():
    text = "[a](../examples/program.py) [b](plans.md) [c](https://x/y) [d](../tests/conformance/differences.md)"
    assert with_copies("client.md", text) == (
        "[a](files/examples/program.py) [b](plans.md) [c](https://x/y) [d](files/tests/conformance/differences.txt)"
    )
    assert with_copies("how-to/a.md", "[a](../../README.md)") == "[a](../files/README.txt)"


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_name_says_what_it_is(module):
    found = importlib.import_module(module)
    for name in exported_names(module):
        thing = getattr(found, name)
        text = thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__
        # A dataclass or named tuple without a docstring is given its own signature as one.
        assert text, name
        assert not text.startswith(f"{name}("), name
