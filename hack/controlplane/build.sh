#!/usr/bin/env bash
# Builds the control plane that tests and demos run on (etcd, kube-apiserver,
# kube-controller-manager, kube-scheduler, kwok, and kubectl where the machine has none)
# from published Go modules into the folder given as first argument.
# A binary is built only when it is missing or its recipe has changed.
set -euo pipefail

out=${1:?usage: build.sh OUTPUT_FOLDER}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)

cd "$here"
kube=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
kwok=v0.8.0
IFS=. read -r major minor _ <<<"${kube#v}"
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath"
version=k8s.io/component-base/version
ldflags="-s -w -X $version.gitVersion=$kube -X $version.gitMajor=$major -X $version.gitMinor=$minor"

# One build at a time, where flock is at hand: two `make` calls side by side must not write the same files.
exec 9>"$out/.lock"
if command -v flock >/dev/null 2>&1; then flock 9; fi

# The recipe of every binary: what it depends on besides the Go toolchain.
recipe=$(cat go.mod go.sum build.sh cmd/*/main.go | git hash-object --stdin | cut -c1-16)-$(go env GOVERSION)
current() { [ -x "$out/$1" ] && [ "$(cat "$out/.$1.recipe" 2>/dev/null)" = "$recipe" ]; }

todo=()
for name in etcd kube-apiserver kube-controller-manager kube-scheduler kwok; do
	current "$name" || todo+=("$name")
done
if ! command -v kubectl >/dev/null 2>&1 && ! current kubectl; then todo+=(kubectl); fi
[ ${#todo[@]} -gt 0 ] || exit 0

echo "controlplane: building ${todo[*]} (Kubernetes $kube, kwok $kwok) into $out"
echo "controlplane: with cold caches on 2 cores all of it takes about 8 minutes, once; with warm ones a minute"
begin=$SECONDS
for name in "${todo[@]}"; do
	start=$SECONDS
	echo "controlplane: $name …"
	if [ "$name" = kwok ]; then
		(cd / && GOBIN=$out go install -ldflags "-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=$kwok" "sigs.k8s.io/kwok/cmd/kwok@$kwok")
	else
		go build -ldflags "$ldflags" -o "$out/$name" "./cmd/$name"
	fi
	echo "$recipe" >"$out/.$name.recipe"
	echo "controlplane: $name done in $((SECONDS - start)) s"
done
echo "controlplane: built in $((SECONDS - begin)) s"
