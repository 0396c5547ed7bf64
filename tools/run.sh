#!/bin/sh
# `make run`: what works today, on a fresh clone.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin
show() { echo; echo "\$ $*"; }

show seamark --version
$bin/seamark --version

show seamark broker --listen 127.0.0.1:0 "   # a Kafka broker without Java; here from Python, with one topic"
show python examples/raw_protocol.py BOOTSTRAP demoGroup demoTopic "   # find the coordinator, commit two offsets, read one back"
$bin/python - <<'END'
import subprocess
import sys

from seamark import Broker

with Broker() as broker:
    broker.create_topic("demoTopic", partitions=2)
    subprocess.run([sys.executable, "examples/raw_protocol.py", broker.bootstrap, "demoGroup", "demoTopic"], check=True)
END

show python examples/first_look.py "   # a parallel consumer, and the command line beside it"
$bin/python examples/first_look.py

show seamark wire offsets-entry KEY VALUE "   # that commit as Kafka stores it in __consumer_offsets"
$bin/seamark wire offsets-entry 0001000964656d6f47726f7570000964656d6f546f70696300000000 \
  00040000000000000064ffffffff146173736f636961746564206d657461646174610000018bcfe5680000

show seamark simulate --count 50 "   # whole consumer groups with faults, in virtual time"
$bin/seamark simulate --count 50
