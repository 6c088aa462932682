package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/roperator/roperator/handler"
)

// An Entry is one call of a recording that was read.
type Entry struct {
	Number  int // of the line; the first call is on line 2
	Kind    Kind
	Request *handler.SyncRequest // with a Parent
	Answer  *Answer              // nil if the handler returned no response
	Error   string               // "" if the handler returned no error
}

// Read yields the calls of a recording. Of one that is damaged, was cut off, or has no
// call, it yields what comes before that, and then an error that names the line. That is
// the last. An Entry's Kind may be one that this version doesn't know.
func Read(r io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lines := bufio.NewReader(r)
		for n := 1; ; n++ {
			text, err := lines.ReadBytes('\n')
			if n > 2 && errors.Is(err, io.EOF) && len(text) == 0 {
				return
			}
			entry, err := readLine(n, text, err)
			if err != nil {
				yield(Entry{}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if n > 1 && !yield(entry, nil) {
				return
			}
		}
	}
}

// readLine returns the call of a line; the first line has none. err is of reading it.
func readLine(n int, text []byte, err error) (Entry, error) {
	switch {
	case errors.Is(err, io.EOF) && len(text) == 0:
		return Entry{}, errors.New("the recording ends before the first call")
	case errors.Is(err, io.EOF):
		return Entry{}, errors.New("the recording was cut off")
	case err != nil:
		return Entry{}, err
	case n == 1:
		return Entry{}, readHeader(text)
	}
	var in line
	if err := readJSON(text, &in); err != nil {
		return Entry{}, err
	}
	var req handler.SyncRequest
	if err := json.Unmarshal(in.Request, &req); err != nil || req.Parent == nil {
		return Entry{}, fmt.Errorf("request: no parent (%v)", err) //nolint:errorlint // it may be nil
	}
	return Entry{Number: n, Kind: in.Call, Request: &req, Answer: in.Response, Error: in.Error}, nil
}

func readHeader(text []byte) error {
	var head header
	if err := readJSON(text, &head); err != nil || head.Format != Format {
		return fmt.Errorf("not a recording: want the format %q (%v)", Format, err) //nolint:errorlint // it may be nil
	}
	return nil
}

func readJSON(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}
