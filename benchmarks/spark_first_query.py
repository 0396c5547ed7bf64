"""The first query of a fresh Spark session: prints rows, bytes and seconds.

    python -m benchmarks.spark_first_query SOURCE BOOTSTRAP TOPIC

A process of its own for ``spark_source.first_query``: a session is only fresh once.
"""

import sys
import time

import seamark.spark
from tests.support.spark_session import local_session


def main() -> None:
    source, bootstrap, topic = sys.argv[1:4]
    # The workers of a user's session, not the quick ones of the tests.
    settings = {"spark.driver.memory": "3g", "spark.pyspark.python": sys.executable}
    with local_session(settings=settings, java_options="") as spark:
        began = time.perf_counter()
        if source == "seamark":
            seamark.spark.register(spark)
        reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
        row = reader.load().selectExpr("count(1) rows", "sum(length(value)) bytes").collect()[0]
        print(row.rows, row.bytes, time.perf_counter() - began)


if __name__ == "__main__":
    main()
