package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Where the programs are published. A mirror has the same paths.
const (
	kubernetesHost = "https://dl.k8s.io"
	kwokReleases   = "https://github.com/kubernetes-sigs/kwok/releases/download"
	envtestIndex   = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
)

// inEnvtest are the programs of an archive of envtest, inKubernetes those of a release of
// Kubernetes that come one by one.
func inEnvtest() []string    { return []string{"etcd", "kube-apiserver", "kubectl"} }
func inKubernetes() []string { return []string{"kube-controller-manager", "kube-scheduler"} }

const kwok = "kwok"

func known(name string) bool {
	return name == kwok || slices.Contains(inEnvtest(), name) || slices.Contains(inKubernetes(), name)
}

// A failure is what kept some programs from being downloaded.
type failure struct {
	names []string
	err   error
}

// A source gives some of the programs.
type source struct {
	names []string
	fetch func(ctx context.Context) error
}

// fetchAll downloads what was asked for, from all sources at a time, and returns what
// couldn't be had, in the order in which it was asked for.
func fetchAll(ctx context.Context, opts options, client *http.Client, progress *progress) []failure {
	sources := sourcesOf(opts, client, progress)
	errs := make([]error, len(sources))
	var group sync.WaitGroup
	for i, source := range sources {
		group.Go(func() { errs[i] = source.fetch(ctx) })
	}
	group.Wait()
	var failures []failure
	for i, err := range errs {
		if err != nil {
			failures = append(failures, failure{sources[i].names, err})
		}
	}
	return failures
}

func sourcesOf(opts options, client *http.Client, progress *progress) []source {
	var sources []source
	var envtest []string
	kubernetes := folder{opts.out, recipe(opts, opts.kubernetes)}
	for _, name := range opts.names {
		single := single{name: name, client: client, folder: kubernetes}
		switch {
		case slices.Contains(inEnvtest(), name):
			envtest = append(envtest, name)
			continue
		case name == kwok:
			single.url = fmt.Sprintf("%s/%s/kwok-%s-%s", kwokReleases, opts.kwok, opts.goos, opts.goarch)
			single.sum = kwokSum(opts, client)
			single.folder.recipe = recipe(opts, opts.kwok)
		default:
			single.url = fmt.Sprintf("%s/%s/bin/%s/%s/%s", kubernetesHost, opts.kubernetes, opts.goos, opts.goarch, name)
			single.sum = publishedSum(client)
		}
		single.url = locate(opts.mirror, single.url)
		sources = append(sources, source{[]string{name}, single.fetch})
	}
	if len(envtest) > 0 {
		archive := archive{names: envtest, opts: opts, folder: kubernetes, progress: progress}
		sources = append([]source{{envtest, archive.fetch}}, sources...)
	}
	return sources
}

// recipe is what get.sh compares: with it, a program is what was asked for. The version is the
// one asked for, though envtest may have had only another patch.
func recipe(opts options, version string) string {
	return fmt.Sprintf("downloaded %s %s/%s", version, opts.goos, opts.goarch)
}

// summary is a line for each program or archive that couldn't be had, and a single one
// if no host can be reached.
func summary(failures []failure) []string {
	var lines, names []string
	offline := true
	for _, f := range failures {
		lines = append(lines, fmt.Sprintf("%s: can't be downloaded: %v", strings.Join(f.names, ", "), f.err))
		names = append(names, f.names...)
		offline = offline && unreachable(f.err)
	}
	if offline && len(failures) > 1 {
		return []string{fmt.Sprintf("%s: can't be downloaded: no host can be reached: %v", strings.Join(names, ", "), failures[0].err)}
	}
	return lines
}

// unreachable says whether an error is that of a connection, or of looking up its host.
func unreachable(err error) bool {
	var operation *net.OpError
	var lookup *net.DNSError
	return errors.As(err, &lookup) || errors.As(err, &operation) && operation.Op == "dial"
}
