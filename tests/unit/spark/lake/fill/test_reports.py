"""What tasks report: it survives the way to the driver, is summed, and is not published where it cannot be true."""

import pytest

from seamark.spark.lake.errors import LakeJobFailed
from seamark.spark.lake.fill.reports import Report, RunSummary, publish_reports, summary_of
from seamark.spark.lake.tables.lake import Lake
from seamark.spark.lake.tables.manifest import Covered, File


def test_reports_survive_the_way_to_the_driver_and_are_summed():
    files = [("commits", File("a", 3, 9)), ("state_keys", File("b", 1, 1, 4))]
    report = Report(4, Covered(0, 3, 3, -1), 3, 17, 19, files)

    assert Report.of_line(report.to_line()) == report
    assert summary_of([report, report], 1.5, 7) == RunSummary(6, {"commits": 6}, 1.5, 7)


def test_a_partition_read_by_two_tasks_is_not_published(tmp_path):
    lake = Lake.create(tmp_path / "lake", None)
    report = Report(4, Covered(0, 3, 3, -1), 3, 17, 19, [])

    with pytest.raises(LakeJobFailed, match="by two tasks"):
        publish_reports(lake, [report, report])
    assert lake.version == 0
