"""The offsets lake: ``__consumer_offsets`` and the coordinators' answers as tables of what was committed and when.

``job`` fills a lake in batches, ``stream`` keeps it fresh, ``sampler`` asks coordinators where the topic is hidden;
``lake`` is the directory that they publish to. Needs ``seamark[spark]``; importing this package loads neither Spark
nor Arrow.
"""
