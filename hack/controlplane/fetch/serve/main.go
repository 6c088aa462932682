// Command serve is a mirror for fetch, of the programs in a folder:
//
//	go run ./serve -kubernetes v1.36.3 -kwok v0.8.0 FOLDER
//
// It prints its URL, for CONTROLPLANE_MIRROR, and ends with an interrupt.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/roperator/roperator/hack/controlplane/fetch/mirror"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run() error {
	var release mirror.Release
	flag.StringVar(&release.Kubernetes, "kubernetes", "", "`version` of Kubernetes, v1.36.3 say")
	flag.StringVar(&release.Kwok, "kwok", "", "`version` of kwok, v0.8.0 say")
	address := flag.String("listen", "127.0.0.1:0", "`address` to listen on")
	flag.Parse()
	if flag.NArg() != 1 || release.Kubernetes == "" || release.Kwok == "" {
		return errors.New("usage: serve -kubernetes VERSION -kwok VERSION FOLDER")
	}
	programs := map[string][]byte{}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler", "kwok"} {
		content, err := os.ReadFile(filepath.Join(flag.Arg(0), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // 404 for whoever asks
		}
		if err != nil {
			return err
		}
		programs[name] = content
	}
	files, err := mirror.New(programs, release)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	const headers = 10 * time.Second
	server := &http.Server{Handler: files, ReadHeaderTimeout: headers}
	return server.Serve(listener)
}
