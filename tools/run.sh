#!/bin/sh
# `make run`: what works today, on a fresh clone.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin
echo "\$ seamark --version"
$bin/seamark --version
echo
echo "\$ seamark wire apis"
$bin/seamark wire apis
echo
echo "A commit as it travels: group demoGroup, topic demoTopic, offsets 100 and 200"
$bin/seamark wire decode OffsetCommitRequest 8 \
  0a64656d6f47726f7570ffffffff0100020a64656d6f546f70696303000000000000000000000064ffffffff146173736f636961746564206d65746164617461000000000100000000000000c8ffffffff0e6d6f7265206d65746164617461000000 --json
echo
echo "The same commit as Kafka stores it in __consumer_offsets"
$bin/seamark wire offsets-entry 0001000964656d6f47726f7570000964656d6f546f70696300000000 \
  00040000000000000064ffffffff146173736f636961746564206d657461646174610000018bcfe5680000 --json
