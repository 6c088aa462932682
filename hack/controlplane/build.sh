#!/usr/bin/env bash
# Builds programs of the control plane from published Go modules. get.sh calls it:
#
#	build.sh FOLDER WORK PROGRAM…    builds them in the folder WORK, then moves them into FOLDER
#	build.sh --recipe                prints what a program that was built has in .PROGRAM.recipe
set -euo pipefail
cd "$(dirname "$0")"

# All programs are built by one call, from one module: what they have in common is compiled once, and
# no core waits for the end of one program before the next begins. Without debugging information, which
# nobody looks at here, less is compiled and linked.
# GOGC is that of the compilers, whose garbage is gone in seconds anyway: an eighth less of processor time.
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath" GOGC=${GOGC:-400}
gcflags=all=-dwarf=false

if [ "${1:-}" = --recipe ]; then
	echo "built $(cat go.mod go.sum build.sh cmd/*/main.go | git hash-object --stdin | cut -c1-16) $(go env GOVERSION)"
	exit 0
fi

folder=${1:?usage: build.sh FOLDER WORK PROGRAM…} work=${2:?usage: build.sh FOLDER WORK PROGRAM…}
shift 2
recipe=$("./build.sh" --recipe)
version() { awk -v module="$1" '$1 == module { print $2; exit }' go.mod; }
kubernetes=$(version k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${kubernetes#v}"
component=k8s.io/component-base/version
ldflags="-s -w -X $component.gitVersion=$kubernetes -X $component.gitMajor=$major -X $component.gitMinor=$minor"
ldflags+=" -X sigs.k8s.io/kwok/pkg/consts.Version=$(version sigs.k8s.io/kwok)"

# told passes on what go build says, but for the packages that -v names: it tells now and then how many there were.
told() {
	local line count=0 modules=0 last=$SECONDS
	while IFS= read -r line; do
		case $line in
		"go: downloading "*)
			[ $((modules++)) -gt 0 ] || echo "controlplane: downloading Go modules"
			;;
		*[[:space:]]* | "") echo "$line" ;;
		*)
			count=$((count + 1))
			if [ $((SECONDS - last)) -ge 20 ]; then
				echo "controlplane: compiling, $count of at most $packages packages begun after $((SECONDS - begin)) s"
				last=$SECONDS
			fi
			;;
		esac
	done
}

echo "controlplane: building $* (Kubernetes $kubernetes) into $folder"
echo "controlplane: with cold caches on 2 cores all of it takes about 5 minutes, once; with warm ones a minute"
begin=$SECONDS
packages=$(go list -deps "${@/#/./cmd/}" 2> >(told >&2) | wc -l)
mkdir "$work/built"
go build -v -gcflags="$gcflags" -ldflags="$ldflags" -o "$work/built/" "${@/#/./cmd/}" 2>&1 | told
for name in "$@"; do
	rm -f "$folder/.$name.recipe"
	mv "$work/built/$name" "$folder/$name"
	echo "$recipe" >"$folder/.$name.recipe"
done
echo "controlplane: built in $((SECONDS - begin)) s"
