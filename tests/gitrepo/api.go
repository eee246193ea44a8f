// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
)

// API is a server that answers as the REST API of a GitHub Enterprise server does, to
// whoever knows its token.
type API struct {
	// URL is its address.
	URL string
	// Token is the only one that it takes.
	Token string

	server *httptest.Server
}

// StartAPI serves an organisation with repositories, one on each page of its list. The
// last one is archived.
func StartAPI(organisation string, repositories ...string) *API {
	a := &API{Token: rand.Text()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v3/orgs/"+organisation+"/repos", func(w http.ResponseWriter, r *http.Request) {
		page := 1
		if p := r.URL.Query().Get("page"); p != "" {
			var err error
			if page, err = strconv.Atoi(p); err != nil || page < 1 || page > len(repositories) {
				answer(w, http.StatusUnprocessableEntity, map[string]any{"message": "Validation Failed"})
				return
			}
		}
		if page < len(repositories) {
			q := r.URL.Query()
			q.Set("page", strconv.Itoa(page+1))
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, a.URL, r.URL.Path, q.Encode()))
		}
		answer(w, http.StatusOK, []any{a.repository(organisation, repositories[page-1], page, page == len(repositories))})
	})
	a.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+a.Token {
			answer(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials"})
			return
		}
		mux.ServeHTTP(w, r)
	}))
	a.URL = a.server.URL
	return a
}

// repository has the fields that scanners read, in the documented types.
func (a *API) repository(organisation, name string, id int, archived bool) map[string]any {
	full := organisation + "/" + name
	return map[string]any{
		"id": id, "name": name, "full_name": full, "private": false, "visibility": "public", "archived": archived,
		"html_url": a.URL + "/" + full, "default_branch": "main", "topics": []string{"demo"},
		"owner":      map[string]any{"id": 7, "login": organisation, "type": "Organization"},
		"created_at": "2024-01-02T03:04:05Z", "updated_at": "2025-01-02T03:04:05Z", "pushed_at": "2025-01-02T03:04:05Z",
	}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	// A scanner that hangs up does not need the answer.
	_ = json.NewEncoder(w).Encode(body)
}

// Close ends the server.
func (a *API) Close() { a.server.Close() }
