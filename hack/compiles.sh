#!/bin/sh
# Counts the packages that are compiled: go build, vet or test with -toolexec=…/hack/compiles.sh, and with an empty
# GOCACHE, add a line with the import path of each to the file COMPILES. The flag doesn't change what is cached.
case ${1##*/} in
compile) [ "$2" = -V=full ] || echo "$TOOLEXEC_IMPORTPATH" >>"${COMPILES:-/dev/null}" ;;
esac
exec "$@"
