#!/bin/sh
# Runs SEAMARK_WORKER_PYTHON without the zip files of SEAMARK_PYSPARK_LIB in PYTHONPATH; see worker_python.py.
set -f
kept=
IFS=:
for each in $PYTHONPATH; do
    case $each in
        *.zip) [ "${each%/*}" -ef "$SEAMARK_PYSPARK_LIB" ] && continue ;;
    esac
    kept=$kept${kept:+:}$each
done
PYTHONPATH=$kept exec "$SEAMARK_WORKER_PYTHON" "$@"
