"""The output directory: a run's own is used again, somebody else's is left alone."""

import pytest

from seamark.errors import UsageError
from seamark.quickstart.places import Names, Places


def test_a_new_and_an_empty_directory_are_taken(tmp_path):
    assert Places.prepare(tmp_path / "new" / "deep").out.is_dir()
    (tmp_path / "empty").mkdir()
    assert Places.prepare(tmp_path / "empty").mark.is_file()


def test_of_an_earlier_run_only_what_a_run_writes_is_removed(tmp_path):
    places = Places.prepare(tmp_path / "out")
    places.lake.mkdir()
    (places.lake / "lake.json").write_text("{}")
    places.report.write_text("old")
    (places.out / "notes.txt").write_text("mine")
    again = Places.prepare(tmp_path / "out")
    assert not again.lake.exists()
    assert not again.report.exists()
    assert (again.out / "notes.txt").read_text() == "mine"


def test_somebody_elses_directory_is_refused_and_untouched(tmp_path):
    (tmp_path / "report.html").write_text("precious")
    with pytest.raises(UsageError, match="contains other files"):
        Places.prepare(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UsageError, match="not a directory"):
        Places.prepare(tmp_path / "out")
    with pytest.raises(UsageError, match="cannot be written"):
        Places.prepare(tmp_path / "out" / "below")


def test_names_on_a_given_cluster_are_nobody_elses():
    one, other = Names.fresh(), Names.fresh()
    assert one.prefix != other.prefix
    assert all(name.startswith(one.prefix) for name in (one.topic, *one.groups))
    assert Names().topic == "orders"
