package soak

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
)

// A measure is what the process holds at one moment.
type measure struct {
	heap       uint64 // bytes in use after a garbage collection
	goroutines int
	files      int            // open file descriptors; 0 where they can't be counted
	series     int            // lines of /metrics
	sizes      map[string]int // entries kept by parent or child
}

// What may be more at the end than at the beginning: caches and pools fill
// slowly, connections are made anew, and a result or status code that comes
// for the first time makes a series or, in a histogram, some. Whatever is kept
// by parent may not.
const (
	heapSlack      = 3 << 20 // and a quarter of the heap
	goroutineSlack = 10
	fileSlack      = 5
	seriesSlack    = 80
)

// grown names what there is too much of.
func (m *measure) grown(begin *measure) (out []string) {
	check := func(what string, now, before, limit int) {
		if now > limit {
			out = append(out, fmt.Sprintf("%s: %d, and %d at the beginning: more than %d", what, now, before, limit))
		}
	}
	check("heap", int(m.heap), int(begin.heap), int(begin.heap+begin.heap/4+heapSlack))
	check("goroutines", m.goroutines, begin.goroutines, begin.goroutines+goroutineSlack)
	check("open files", m.files, begin.files, begin.files+fileSlack)
	check("metric series", m.series, begin.series, begin.series+seriesSlack)
	for _, what := range slices.Sorted(maps.Keys(m.sizes)) {
		check(what, m.sizes[what], begin.sizes[what], begin.sizes[what])
	}
	return out
}

// measure looks at everything. The process should be at rest.
func (s *stage) measure(ctx context.Context) (*measure, error) {
	s.api.idle()
	for range 3 { // what finalizers and pools hold goes later
		runtime.GC()
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	m := &measure{heap: mem.HeapAlloc, goroutines: runtime.NumGoroutine(), sizes: s.sizes()}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		m.files = len(entries)
	}
	series, err := s.series(ctx)
	if err != nil {
		return nil, err
	}
	for _, line := range series {
		if strings.Contains(line, passerby) {
			return nil, fmt.Errorf("a metric has a parent in its labels: %s", line)
		}
	}
	m.series = len(series)
	return m, nil
}

// series asks the metrics endpoint.
func (s *stage) series(ctx context.Context) (lines []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.metrics+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text := bufio.NewScanner(resp.Body)
	for text.Scan() {
		if !strings.HasPrefix(text.Text(), "#") {
			lines = append(lines, text.Text())
		}
	}
	return lines, text.Err()
}

func (m *measure) String() string {
	return fmt.Sprintf("heap=%.1fMB goroutines=%d files=%d series=%d", float64(m.heap)/1e6, m.goroutines, m.files, m.series)
}
