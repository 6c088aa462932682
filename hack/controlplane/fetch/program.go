package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// errAbsent means that a host hasn't a file.
var errAbsent = errors.New("404 Not Found")

// A single is a program that is published as a file of its own.
type single struct {
	name   string
	url    string
	client *http.Client
	folder folder
	sum    func(ctx context.Context, url string) (string, error) // its SHA-256, in hexadecimal
}

// fetch asks for the sum first: a program without one isn't downloaded.
func (s single) fetch(ctx context.Context) error {
	want, err := s.sum(ctx, s.url)
	if err != nil {
		return err
	}
	file, err := s.folder.create(s.name)
	if err != nil {
		return err
	}
	defer file.discard()
	body, err := get(ctx, s.client, s.url)
	if err != nil {
		return err
	}
	defer body.Close()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(file, hash), body); err != nil {
		return fmt.Errorf("%s: %w", shown(s.url), err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return fmt.Errorf("%s: WRONG SUM: its SHA-256 is %s, and should be %s", shown(s.url), got, want)
	}
	return file.install()
}

// publishedSum returns the sum that is published beside a file.
func publishedSum(client *http.Client) func(context.Context, string) (string, error) {
	return func(ctx context.Context, url string) (string, error) {
		const limit = 4096
		url += ".sha256"
		body, err := get(ctx, client, url)
		if err != nil {
			return "", err
		}
		defer body.Close()
		text, err := io.ReadAll(io.LimitReader(body, limit))
		if err != nil {
			return "", fmt.Errorf("%s: %w", shown(url), err)
		}
		return parseSum(shown(url), string(text))
	}
}

// parseSum reads a sum as dl.k8s.io has it, or with the file's name after it, as sha256sum writes it.
func parseSum(where, text string) (string, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return "", fmt.Errorf("%s: is empty, and should be a SHA-256", where)
	}
	sum := strings.ToLower(fields[0])
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("%s: %.80q isn't a SHA-256", where, fields[0])
	}
	return sum, nil
}

// kwokSum returns the sum of kwok, whose releases publish none: it is in a file of this
// repository. A mirror may serve a build of its own, if it has the sum beside it.
func kwokSum(opts options, client *http.Client) func(context.Context, string) (string, error) {
	return func(ctx context.Context, url string) (string, error) {
		if opts.mirror != nil {
			sum, err := publishedSum(client)(ctx, url)
			if !errors.Is(err, errAbsent) {
				return sum, err
			}
		}
		data, err := os.ReadFile(opts.kwokSums)
		if err != nil {
			return "", fmt.Errorf("sums of kwok: %w", err)
		}
		file := fmt.Sprintf("kwok-%s-%s", opts.goos, opts.goarch)
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] == opts.kwok && fields[1] == file {
				return parseSum(opts.kwokSums, fields[2])
			}
		}
		return "", fmt.Errorf("sums of kwok: %s has none of %s %s", opts.kwokSums, file, opts.kwok)
	}
}

// get returns the body of an answer that says 200.
func get(ctx context.Context, client *http.Client, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%s: %w", shown(url), errAbsent)
	}
	return nil, fmt.Errorf("%s: %s", shown(url), resp.Status)
}
