package measure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/client-go/rest"
)

// Events reads the watch events of a resource, existing objects first, and hands
// each line to each until ctx ends or each returns false. The line is valid
// during the call. A watch that the server ends is taken up where it was, or, if
// it hadn't told of all existing objects, begun again: each is told of some twice.
func Events(ctx context.Context, client rest.Interface, path string, each func(line []byte) bool) error {
	version := ""
	for {
		more, err := watchOnce(ctx, client, path, &version, each)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: watch: %w", path, err)
		}
		if !more {
			return nil
		}
	}
}

// watchOnce returns false if each has.
func watchOnce(ctx context.Context, client rest.Interface, path string, version *string, each func(line []byte) bool) (more bool, err error) {
	request := client.Get().AbsPath(path).Param("watch", "true").Param("timeoutSeconds", "3600").Param("allowWatchBookmarks", "true")
	if *version != "" {
		request.Param("resourceVersion", *version)
	} else {
		request.Param("sendInitialEvents", "true").Param("resourceVersionMatch", "NotOlderThan")
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return false, err
	}
	defer body.Close()
	reader := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := reader.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil: // a line that is too long is one, too
			return false, err
		case IsEvent(line, "ERROR"):
			return false, fmt.Errorf("%s", line)
		}
		bookmark := IsEvent(line, "BOOKMARK")
		if *version != "" || bookmark && bytes.Contains(line, []byte(`"k8s.io/initial-events-end":"true"`)) {
			*version = valueOf(line, `"resourceVersion":"`)
		}
		if !bookmark && !each(line) {
			return false, nil
		}
	}
}

// IsEvent says whether a line is an event of the type.
func IsEvent(line []byte, eventType string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(`{"type":"`))
	return ok && bytes.HasPrefix(rest, []byte(eventType)) && len(rest) > len(eventType) && rest[len(eventType)] == '"'
}

// NameOf returns the name of an event's object, which is the first member
// with that key.
func NameOf(line []byte) string {
	return valueOf(line, `"metadata":{"name":"`)
}

// valueOf returns the string that follows the first occurrence of key.
func valueOf(line []byte, key string) string {
	_, rest, _ := bytes.Cut(line, []byte(key))
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}
