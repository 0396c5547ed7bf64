"""Rules about a group's offsets: how far behind, for how long, in what state. Pure; monitor and Spark share them."""
