"""What ``benchmarks.hostile`` and ``tests.soak.hostile`` are made of: requests, a search for the worst, attackers."""
