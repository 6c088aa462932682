#!/bin/sh
# Runs a test program when no other one runs: go test -exec "$PWD/hack/one-at-a-time.sh"
# So go test compiles the next package meanwhile, which it doesn't with -p 1. It counts the wait as time of the
# package: a line "SECONDS FOLDER" in the file TEST_WAITS tells how long that was. Without flock, nothing waits.
lock=${0%/*}/../.cache/.one-at-a-time
command -v flock >/dev/null 2>&1 || exec "$@"
exec flock -o "$lock" sh -c 'echo "$(($(date +%s) - $1)) $PWD" >>"${TEST_WAITS:-/dev/null}"; shift; exec "$@"' \
	one-at-a-time "$(date +%s)" "$@"
