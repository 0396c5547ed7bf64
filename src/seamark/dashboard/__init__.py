"""The pages of ``seamark dashboard``: groups, topics and resets of one or several clusters, in a browser.

Needs the extra ``seamark[dashboard]``; nothing outside this package imports it but the command.
"""
