// SPDX-License-Identifier: Apache-2.0

// Package assets has what the pages of the console load: one style, one script, one icon. Each is served under a name with
// the hash of its content, so that browsers may keep it for ever.
package assets

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"path"
	"strings"
)

//go:embed style.css app.js icon.svg
var files embed.FS

// Prefix begins the path of every asset.
const Prefix = "/assets/"

// types are the media types by the end of the name.
var types = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// Assets are the files with their hashes.
type Assets struct {
	paths map[string]string // by name
	files map[string][]byte // by path
}

// Load reads the files of the program.
func Load() (*Assets, error) {
	a := &Assets{paths: map[string]string{}, files: map[string][]byte{}}
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	for _, entry := range entries {
		content, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read assets: %w", err)
		}
		sum := sha256.Sum256(content)
		end := path.Ext(entry.Name())
		hashed := Prefix + strings.TrimSuffix(entry.Name(), end) + "." + base64.RawURLEncoding.EncodeToString(sum[:9]) + end
		a.paths[entry.Name()], a.files[hashed] = hashed, content
	}
	return a, nil
}

// Path is where an asset is served.
func (a *Assets) Path(name string) (string, error) {
	if p, ok := a.paths[name]; ok {
		return p, nil
	}
	return "", fmt.Errorf("there is no asset %q", name)
}

// ServeHTTP serves the assets.
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, ok := a.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", types[path.Ext(r.URL.Path)])
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(content) // the browser is gone, if it fails
}
