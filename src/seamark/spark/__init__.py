"""Kafka in Spark without jars: ``register(spark)``, then ``format("seamark")`` to read, stream and write.

Needs ``seamark[spark]``. Importing this package loads neither Spark nor Arrow.
"""

from __future__ import annotations

from seamark.spark.registration import register

__all__ = ["register"]
