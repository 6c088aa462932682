package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
)

// A chain is the file that is written, and the full ones before it. It is not for concurrent use.
type chain struct {
	path     string
	maxBytes int64
	files    int    // how many there may be
	head     []byte // the first line of each

	file     *os.File // nil: none is open
	old      bool     // file is a recording in another version of the format
	prepared bool     // file is ready for lines: see prepare
}

// name returns the path of a file; number 0 is the one that is written.
func (c *chain) name(number int) string {
	if number == 0 {
		return c.path
	}
	return c.path + "." + strconv.Itoa(number)
}

// write writes a line, which ends with a newline, and begins another file for it if need be. A
// file must have room for the line alone.
// After an error no part of the line is in a file, as far as that can be helped, and the next
// call opens the file anew.
func (c *chain) write(line []byte) error {
	err := c.tryWrite(line)
	if err != nil {
		_ = c.close() // err says what is wrong
	}
	return err
}

func (c *chain) tryWrite(line []byte) error {
	size, err := c.ready()
	if err == nil && size+int64(len(line)) > c.maxBytes {
		if err = c.rotate(); err == nil {
			size, err = c.ready()
		}
	}
	if err != nil {
		return err
	}
	text := line
	if size == 0 {
		text = slices.Concat(c.head, line)
	}
	if _, err := c.file.Write(text); err != nil {
		_ = c.file.Truncate(size) // if that fails, too, it is done when the file is opened again
		return err
	}
	return nil
}

// ready opens the file if it isn't open, or if its path leads to another one by now, and makes
// it ready for the next line. It returns the file's size.
func (c *chain) ready() (int64, error) {
	if c.file != nil && !c.isInPlace() {
		if err := c.close(); err != nil {
			return 0, err
		}
	}
	if c.file == nil {
		if err := c.open(); err != nil {
			return 0, err
		}
	}
	if !c.prepared {
		if err := c.prepare(); err != nil {
			return 0, err
		}
	}
	info, err := c.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// isInPlace says whether the open file is still the one that its path leads to.
func (c *chain) isInPlace() bool {
	held, err := c.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(c.path)
	return err == nil && os.SameFile(held, named)
}

// open opens the file, and changes nothing in one that is there.
func (c *chain) open() error {
	if info, err := os.Stat(c.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: it isn't a regular file", c.path) // to open a pipe could take forever
	}
	file, err := os.OpenFile(c.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	old, err := c.isOld(file)
	if err != nil {
		_ = file.Close() // nothing was written
		return fmt.Errorf("%s: %w", c.path, err)
	}
	c.file, c.old, c.prepared = file, old, false
	return nil
}

// isOld says whether a file is a recording in another version of the format, to which nothing
// can be appended. One that isn't a recording is an error.
func (c *chain) isOld(file io.ReaderAt) (bool, error) {
	start := make([]byte, len(c.head))
	n, err := file.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	start = start[:n]
	anyVersion := c.head[:bytes.IndexByte(c.head, '/')+1]
	switch {
	case bytes.HasPrefix(c.head, start): // also if the file is empty, or only a part of the head was written
		return false, nil
	case bytes.HasPrefix(start, anyVersion):
		return true, nil
	}
	return false, errors.New("it isn't a recording")
}

// prepare makes a file that was opened ready for the next line: it removes files that are too
// many, and cuts off half a line at the end.
func (c *chain) prepare() error {
	if c.old {
		if err := c.rotate(); err != nil {
			return err
		}
		if err := c.open(); err != nil {
			return err
		}
	}
	for number := c.files; ; number++ {
		err := os.Remove(c.name(number))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
	}
	info, err := c.file.Stat()
	if err != nil {
		return err
	}
	end, err := endOfLines(c.file, info.Size())
	if err != nil {
		return err
	}
	if end < info.Size() {
		if err := c.file.Truncate(end); err != nil {
			return err
		}
	}
	c.prepared = true
	return nil
}

// endOfLines returns where the last line ends that is whole; 0 if there is none.
func endOfLines(file io.ReaderAt, size int64) (int64, error) {
	buffer := make([]byte, 32<<10)
	for end := size; end > 0; {
		start := max(0, end-int64(len(buffer)))
		part := buffer[:end-start]
		if _, err := file.ReadAt(part, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// rotate closes the file, and gives it the name of the one before it, that one the next name,
// and so on. The last one is replaced, unless a name was free. No file is open then. If there may
// be but one file, prepare removes what it was renamed to.
func (c *chain) rotate() error {
	if err := c.close(); err != nil {
		return err
	}
	last := 1 // the first name that is free, or the last of all
	for last < c.files-1 && exists(c.name(last)) {
		last++
	}
	for number := last; number > 0; number-- {
		if err := os.Rename(c.name(number-1), c.name(number)); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// close closes the file, if one is open.
func (c *chain) close() error {
	if c.file == nil {
		return nil
	}
	file := c.file
	c.file = nil
	return file.Close()
}
