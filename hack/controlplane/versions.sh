#!/usr/bin/env bash
# Runs the conformance suite on other versions of Kubernetes:
#
#	versions.sh FOLDER VERSION…
#
# A version is 1.34, or a patch: 1.34.4. FOLDER/VERSION/programs gets etcd, kube-apiserver and kube-controller-manager,
# and kubectl where the machine has none, by get.sh, which a generated module tells the version. FOLDER/VERSION/conformance.json has what the tests print.
# TESTFLAGS is passed on to go test. The exit code is 1 if a version fails.
set -euo pipefail

fail() { echo "versions: $*" >&2; exit 1; }

folder=${1:?usage: versions.sh FOLDER VERSION…}
shift
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
programs=(etcd kube-apiserver kube-controller-manager)
command -v kubectl >/dev/null || programs+=(kubectl)

# patch prints the patch that stands for a version.
patch() {
	case $1 in
	1.34) echo v1.34.4 ;;
	1.35) echo v1.35.4 ;;
	1.36) echo v1.36.3 ;;
	1.37) echo v1.37.2 ;;
	*.*.*) echo "v${1#v}" ;;
	*) fail "$1: no patch is known; name one, as in 1.34.4" ;;
	esac
}

# generate makes a module that requires a release of Kubernetes, and all else as that release does: its own go.mod, with
# the published staging modules in the place of its folders. Go adds the sums, as its checksum database has them.
generate() {
	local kubernetes=$1 module=$2 upstream name
	rm -rf "$module"
	mkdir -p "$module/cmd"
	cp "$here"/{get.sh,build.sh,kwok.sums} "$module"
	ln -s "$here/fetch" "$module/fetch"
	for name in "${programs[@]}"; do cp -r "$here/cmd/$name" "$module/cmd"; done
	upstream=$(cd / && go mod download -json "k8s.io/kubernetes@$kubernetes" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')
	cp "$upstream" "$module/go.mod"
	chmod u+w "$module/go.mod"
	cd "$module"
	sed -i.upstream "s|=> \./staging/src/\(.*\)|=> \1 v0.${kubernetes#v1.}|" go.mod
	rm go.mod.upstream
	go mod edit -module=controlplane -require="k8s.io/kubernetes@$kubernetes"
	GOFLAGS="${GOFLAGS:-} -mod=mod" go list -deps "${programs[@]/#/./cmd/}" >/dev/null
	cd "$here"
}

# count prints how many scenarios have ended so.
count() { grep -c "^{.*\"Action\":\"$1\".*\"Test\":\"[^\"/]*\"" "$2" || true; }

code=0 table="| Kubernetes | passed | failed | skipped | seconds |
|---|---|---|---|---|"
for version in "$@"; do
	kubernetes=$(patch "$version")
	work=$folder/$kubernetes log=$folder/$kubernetes/conformance.json
	echo "versions: $kubernetes"
	module=$here
	if ! grep -q "k8s.io/kubernetes $kubernetes\$" "$here/go.mod"; then
		module=$work/module
		generate "$kubernetes" "$module"
	fi
	"$module/get.sh" "$work/programs" "${programs[@]}"
	begin=$SECONDS
	# shellcheck disable=SC2086 # flags, split at blanks
	(cd "$here/../.." && KUBEBUILDER_ASSETS=$work/programs ROPERATOR_TEST_ALL=1 go test -json -count=1 -timeout 60m ${TESTFLAGS:-} ./test/conformance) >"$log" || code=1
	sed -n 's/^{.*"Action":"fail".*"Test":"\([^"]*\)".*/versions: failed: \1/p' "$log"
	grep -q '"Action":"run"' "$log" || fail "$kubernetes: no scenario was run, see $log"
	table+="
| ${kubernetes#v} | $(count pass "$log") | $(count fail "$log") | $(count skip "$log") | $((SECONDS - begin)) |"
done
echo "$table"
exit $code
