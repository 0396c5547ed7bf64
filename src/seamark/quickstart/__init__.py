"""The quickstart: the whole of Seamark at work on one small story, on an embedded broker or on a given cluster."""
