package window

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed assets
var assets embed.FS // read only

// isPage says whether a path is that of the page or of one of its assets, which have no data in them.
func isPage(urlPath string) bool { return !strings.HasPrefix(urlPath, "/window/") }

// mediaTypes are those of the assets, by the ends of their names.
func mediaTypes() map[string]string {
	return map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
}

// servePage answers with the page, or with one of its assets.
func servePage(rw http.ResponseWriter, req *http.Request) {
	name := req.URL.Path
	switch {
	case name == "/":
		name = "/assets/index.html"
	case !strings.HasPrefix(name, "/assets/") || name == "/assets/index.html":
		http.NotFound(rw, req)
		return
	}
	media := mediaTypes()[path.Ext(name)]
	body, err := assets.ReadFile(strings.TrimPrefix(name, "/"))
	if err != nil || media == "" {
		http.NotFound(rw, req)
		return
	}
	sum := sha256.Sum256(body)
	rw.Header().Set("Content-Type", media)
	rw.Header().Set("Cache-Control", "no-cache")
	rw.Header().Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	http.ServeContent(rw, req, name, time.Time{}, bytes.NewReader(body))
}
