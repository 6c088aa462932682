#!/usr/bin/env bash
# Measures what a newcomer waits for: `make demo` in a fresh clone of what is committed, with empty caches.
#
#	measure.sh download [FOLDER]    the programs in FOLDER (.cache/controlplane) come from a mirror on loopback
#	measure.sh build                no host can be reached but the Go module proxy
#
# The clock includes the downloads of Go modules. It needs an idle machine, and 4 GB in TMPDIR.
set -euo pipefail
how=${1:?usage: measure.sh download|build [FOLDER]}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=$(cd "${2:-$root/.cache/controlplane}" && pwd)
work=$(mktemp -d)
server=
end() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	chmod -R u+w "$work"
	rm -rf "$work"
}
trap end EXIT
version() { awk -v module="$1" '$1 == module { print $2; exit }' "$here/go.mod"; }

mirror=http://127.0.0.1:9 # nobody listens there
case $how in
download)
	(cd "$here/fetch" && go build -o "$work/serve" ./serve)
	"$work/serve" -kubernetes "$(version k8s.io/kubernetes)" -kwok "$(version sigs.k8s.io/kwok)" "$folder" >"$work/url" &
	server=$!
	until [ -s "$work/url" ]; do
		kill -0 "$server" || exit 1
		sleep 0.2
	done
	mirror=$(cat "$work/url")
	;;
build) ;;
*)
	echo "usage: measure.sh download|build [FOLDER]" >&2
	exit 2
	;;
esac
git clone -q "$root" "$work/clone"
begin=$SECONDS
env -u KUBEBUILDER_ASSETS -u GOFLAGS GOCACHE="$work/build" GOMODCACHE="$work/modules" CONTROLPLANE=auto CONTROLPLANE_MIRROR="$mirror" NO_PROXY=127.0.0.1 \
	bash -c 'cd "$1" && time make demo' measure "$work/clone"
echo "measure: $how: make demo took $((SECONDS - begin)) s on $(nproc) cores; load $(cut -d' ' -f1 /proc/loadavg)"
