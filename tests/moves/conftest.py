"""Two embedded brokers for moves between clusters, and the command as a user runs it."""

from tests.support.two_clusters import admins, clusters, run

__all__ = ["admins", "clusters", "run"]
