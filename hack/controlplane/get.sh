#!/usr/bin/env bash
# Puts the control plane that tests and the demo run on into a folder, as far as it isn't there:
#
#	get.sh FOLDER [PROGRAM…]
#
# The programs are etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok, and kubectl
# where the machine has none, unless they are named.
#
# CONTROLPLANE says how:
#	auto      they are downloaded; what can't be is built. The default.
#	download  they are downloaded; what can't be is an error.
#	build     they are built from published Go modules. No request but the Go tool's own is made.
# What is there counts: with auto however it has come, with download and build only if it has come
# so. When a version changes, what is there is replaced.
#
# CONTROLPLANE_MIRROR is a URL that everything is downloaded from instead of its own host; fetch/main.go
# says by which paths. HTTPS_PROXY and NO_PROXY are heeded.
set -euo pipefail

fail() { echo "controlplane: $*" >&2; exit 1; }

folder=${1:?usage: get.sh FOLDER [PROGRAM…]}
shift
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
	names=(etcd kube-apiserver kube-controller-manager kube-scheduler kwok)
	command -v kubectl >/dev/null 2>&1 || names+=(kubectl)
fi
mode=${CONTROLPLANE:-auto}
case $mode in
auto | download | build) ;;
*) fail "CONTROLPLANE=$mode: must be auto, download or build" ;;
esac

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder" 2>/dev/null || fail "folder $folder: can't be made"
folder=$(cd "$folder" && pwd)

# One run at a time, where flock is at hand: two `make` calls side by side would do all of it twice.
{ exec 9>"$folder/.lock"; } 2>/dev/null || fail "folder $folder: can't be written to"
if command -v flock >/dev/null 2>&1; then flock 9; fi

version() { awk -v module="$1" '$1 == module { print $2; exit }' "$here/go.mod"; }
kubernetes=$(version k8s.io/kubernetes)
kwok=$(version sigs.k8s.io/kwok)
cd "$here"
{ read -r goos && read -r goarch; } < <(go env GOOS GOARCH)
built=$("$here/build.sh" --recipe)

# current PROGRAM says whether a program is there as it was asked for: .PROGRAM.recipe tells what it is.
current() {
	local recipe="" downloaded="downloaded $kubernetes $goos/$goarch"
	if [ "$1" = kwok ]; then downloaded="downloaded $kwok $goos/$goarch"; fi
	[ -x "$folder/$1" ] || return 1
	read -r recipe <"$folder/.$1.recipe" || return 1
	case $mode in
	auto) [ "$recipe" = "$downloaded" ] || [ "$recipe" = "$built" ] ;;
	download) [ "$recipe" = "$downloaded" ] ;;
	build) [ "$recipe" = "$built" ] ;;
	esac
} 2>/dev/null

missing=()
look() {
	missing=()
	for name in "${names[@]}"; do
		current "$name" || missing+=("$name")
	done
}

look
[ ${#missing[@]} -gt 0 ] || exit 0

# What killed runs have left.
rm -rf "$folder"/.work-*
work=$(mktemp -d "$folder/.work-XXXXXX") || fail "folder $folder: can't be written to"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The flags are those of the demo and of the tests, so that what they have in common is compiled once.
fetch() {
	echo "controlplane: downloading ${missing[*]} (Kubernetes $kubernetes${kwok:+, kwok $kwok}) into $folder"
	(cd fetch && GOGC=${GOGC:-400} go build -ldflags='-s -w' -o "$work/fetch" .) || return 1
	"$work/fetch" -out "$folder" -kubernetes "$kubernetes" -kwok "$kwok" -kwok-sums "$here/kwok.sums" \
		-mirror "${CONTROLPLANE_MIRROR:-}" "${missing[@]}" 9>&-
}

if [ "$mode" != build ]; then
	begin=$SECONDS code=0
	fetch || code=$?
	if [ "$code" -eq 0 ]; then
		echo "controlplane: downloaded in $((SECONDS - begin)) s"
		exit 0
	fi
	if [ "$code" -ge 128 ]; then exit "$code"; fi
	look
	if [ "$mode" = download ]; then
		fail "not there: ${missing[*]}; CONTROLPLANE=build builds them from Go modules, CONTROLPLANE_MIRROR=URL names another place to download them from"
	fi
	echo "controlplane: NOT DOWNLOADED, for the reason above: ${missing[*]}. Building instead; CONTROLPLANE=build doesn't try to download" >&2
fi

"$here/build.sh" "$folder" "$work" "${missing[@]}"
