package fakeapi

import (
	"encoding/base64"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A page is what is left of a list, as it was when its first page was sent.
type page struct {
	of      view
	version int64
	items   []*stored
}

// maxTokens is how many continue tokens are good at a time.
const maxTokens = 1000

// list answers a list, or the page of it that the request wants.
func (s *Server) list(v *view, r Request) (map[string]any, error) {
	k := v.kind
	limit, err := strconv.Atoi(r.Query.Get("limit"))
	if err != nil && r.Query.Get("limit") != "" {
		return nil, apierrors.NewBadRequest("limit: " + err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.pageLocked(v, r)
	if err != nil {
		return nil, err
	}
	if s.mu.maxPage > 0 && limit > 0 {
		limit = min(limit, s.mu.maxPage)
	}
	meta := map[string]any{"resourceVersion": strconv.FormatInt(p.version, 10)}
	items := p.items
	if limit > 0 && limit < len(items) {
		items = items[:limit]
		if left := len(p.items) - limit; v.selector.Empty() && v.fields.Empty() {
			meta["remainingItemCount"] = left
		}
		meta["continue"] = s.keepLocked(page{p.of, p.version, p.items[limit:]})
	}
	list := map[string]any{"apiVersion": k.Type.APIVersion, "kind": k.Type.Kind + "List", "metadata": meta, "items": items}
	if k.builtIn() {
		list["items"] = withoutTypes(items)
	}
	return list, nil
}

// pageLocked returns what a list has to tell from here on.
func (s *Server) pageLocked(v *view, r Request) (page, error) {
	token := r.Query.Get("continue")
	if token == "" && s.futureLocked(r.Query.Get("resourceVersion")) {
		return page{}, tooLarge()
	}
	if token == "" {
		return page{*v, s.mu.version, s.selectedLocked(v)}, nil
	}
	if version := r.Query.Get("resourceVersion"); version != "" && version != "0" {
		return page{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	if raw, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(raw) == 0 || raw[0] != '{' {
		return page{}, apierrors.NewBadRequest("continue key is not valid")
	}
	p, ok := s.mu.pages[token]
	if !ok {
		return page{}, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
	}
	return p, nil
}

// keepLocked returns the token of a page.
func (s *Server) keepLocked(p page) string {
	s.mu.uids++
	token := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"rv":%d,"n":%d}`, p.version, s.mu.uids))
	s.mu.pages[token] = p
	if s.mu.tokens = append(s.mu.tokens, token); len(s.mu.tokens) > maxTokens {
		delete(s.mu.pages, s.mu.tokens[0])
		s.mu.tokens = s.mu.tokens[1:]
	}
	return token
}

func withoutTypes(items []*stored) []map[string]any {
	out := make([]map[string]any, len(items))
	for i, item := range items {
		out[i] = item.tree()
		delete(out[i], "apiVersion")
		delete(out[i], "kind")
	}
	return out
}
