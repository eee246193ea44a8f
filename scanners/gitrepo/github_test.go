// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hubRepo is a repository as GitHub documents it, as far as it matters.
func hubRepo(id int, name string, more map[string]any) map[string]any {
	r := map[string]any{
		"id": id, "name": name, "full_name": "acme/" + name, "html_url": "https://github.example/acme/" + name,
		"private": false, "visibility": "public", "archived": false, "topics": []string{},
		"created_at": "2020-09-02T13:39:10Z", "updated_at": "2026-11-19T12:00:00Z", "pushed_at": "2026-11-18T12:00:00Z",
		"owner": map[string]any{"login": "acme", "id": 34573705, "type": "Organization"},
	}
	maps.Copy(r, more)
	return r
}

const hubRepos = "/api/v3/orgs/acme/repos"

func TestGitHubFindings(t *testing.T) {
	f := newFake(t)
	f.routes[hubRepos] = f.paged(
		hubRepo(1, "docs", map[string]any{"topics": []string{"a", "b"}, "archived": true}),
		hubRepo(2, "secret", map[string]any{"private": true, "visibility": "private"}),
		hubRepo(3, "inner", map[string]any{"private": true, "visibility": "internal"}),
		hubRepo(4, "old-server", map[string]any{"private": true, "visibility": nil, "topics": nil}),
		hubRepo(5, "<&>", nil),
	)
	s := run(t, nil, "--git-type", "GitHub", "--url", f.URL, "--organization", "acme", "--access-token", "s3cret")
	if s.err != nil {
		t.Fatal(s.err)
	}
	got := s.findings(t)
	want := finding{
		Name: "GitHub Repo", Description: "A GitHub repository", Category: "Git Repository", OSILayer: "APPLICATION", Severity: "INFORMATIONAL",
		Attributes: repository{
			ID: "1", WebURL: "https://github.example/acme/docs", FullName: "acme/docs", OwnerType: "Organization", OwnerID: "34573705", OwnerName: "acme",
			CreatedAt: "2020-09-02T13:39:10Z", LastActivityAt: "2026-11-19T12:00:00Z", Visibility: "public", Archived: true, Topics: []string{"a", "b"},
		},
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
	var visibilities []string
	for _, g := range got {
		visibilities = append(visibilities, g.Attributes.Visibility)
	}
	if diff := cmp.Diff([]string{"public", "private", "internal", "private", "public"}, visibilities); diff != "" {
		t.Error(diff)
	}
	if got[3].Attributes.Topics == nil {
		t.Error("topics are null, not []")
	}
	if len(f.requests) != 3 {
		t.Errorf("%d requests, want 3 pages", len(f.requests))
	}
	for _, r := range f.requests {
		if h := r.Header.Get("Authorization"); h != "Bearer s3cret" {
			t.Errorf("Authorization %q", h)
		}
	}
	q := f.requests[0].URL.Query()
	if q.Get("per_page") != "100" || q.Get("direction") != "asc" || q.Get("type") != "all" {
		t.Errorf("query %v", q)
	}
	st, err := os.Stat(filepath.Join(s.dir, resultFile))
	if err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v: the lurker must be able to read it", st.Mode(), err)
	}
}

func TestGitHubFilters(t *testing.T) {
	tests := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"None":            {"all are listed", nil, "acme/a acme/b acme/c"},
		"IgnoreCommas":    {"IDs may be separated by commas", []string{"--ignore-repos", "1,3"}, "acme/b"},
		"IgnoreSpaces":    {"and by spaces, as the Python scanner took them", []string{"--ignore-repos", "1", "3", "--obey-rate-limit", "True"}, "acme/b"},
		"IgnoreTwice":     {"and the option may be there twice", []string{"--ignore-repos", "1", "--ignore-repos=2"}, "acme/c"},
		"Since":           {"recent activity only", []string{"--activity-since-duration", "2d"}, "acme/a"},
		"Until":           {"old activity only", []string{"--activity-until-duration", "52w"}, "acme/c"},
		"Between":         {"both", []string{"--activity-since-duration", "52w", "--activity-until-duration", "1.5d"}, "acme/b"},
		"NothingIsLeft":   {"an empty result is a result", []string{"--ignore-repos", "1,2,3"}, ""},
		"NegativeForward": {"a negative duration is in the future", []string{"--activity-since-duration=-1h"}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.routes[hubRepos] = f.paged(
				hubRepo(1, "a", nil),
				hubRepo(2, "b", map[string]any{"updated_at": "2026-11-01T12:00:00Z"}),
				hubRepo(3, "c", map[string]any{"updated_at": "2020-11-01T12:00:00Z"}),
			)
			s := run(t, nil, append([]string{"--git-type", "github", "--url", f.URL, "--organization", "acme"}, tc.args...)...)
			if s.err != nil {
				t.Fatalf("%s: %v", tc.reason, s.err)
			}
			if got := s.names(t); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
			if s.findings(t) == nil {
				t.Error("there is no result file")
			}
		})
	}
}

func TestGitHubCommits(t *testing.T) {
	f := newFake(t)
	f.routes[hubRepos] = f.paged(hubRepo(1, "a", nil), hubRepo(2, "empty", nil), hubRepo(3, "gone", nil))
	f.routes["/api/v3/repos/acme/a/commits"] = status(200, `[{"sha":"106a70b63fe9ffd6b2b264352331fc5e7d7821f0"}]`)
	f.routes["/api/v3/repos/acme/empty/commits"] = status(409, `{"message":"Git Repository is empty."}`)
	s := run(t, nil, "--git-type", "github", "--url", f.URL, "--organization", "acme", "--annotate-latest-commit-id", "True")
	if s.err != nil {
		t.Fatal(s.err)
	}
	var got []string
	for _, g := range s.findings(t) {
		got = append(got, g.Attributes.LastCommitID)
	}
	if diff := cmp.Diff([]string{"106a70b63fe9ffd6b2b264352331fc5e7d7821f0", "", ""}, got); diff != "" {
		t.Error(diff)
	}
}

func TestGitHubTrouble(t *testing.T) {
	reset := strconv.FormatInt(now.Add(10*time.Minute).Unix(), 10)
	limited := status(403, `{"message":"API rate limit exceeded"}`, "X-RateLimit-Remaining", "0", "X-RateLimit-Limit", "60", "X-RateLimit-Reset", reset)
	tests := map[string]struct {
		reason string
		first  []http.HandlerFunc
		args   []string
		slept  []time.Duration
		err    string // empty if the scan succeeds
	}{
		"Unauthorized":   {reason: "a wrong token is reported", first: []http.HandlerFunc{status(401, `{"message":"Bad credentials"}`)}, err: "the access token is missing, wrong or expired"},
		"NotFound":       {reason: "an unknown organisation is reported", first: []http.HandlerFunc{status(404, `{"message":"Not Found"}`)}, err: "organisation acme: the server responds with 404"},
		"Forbidden":      {reason: "a 403 without a limit is not a limit", first: []http.HandlerFunc{status(403, `{"message":"Resource not accessible"}`, "X-RateLimit-Remaining", "4999")}, err: "does not allow this"},
		"ThenFine":       {reason: "server errors are tried again", first: []http.HandlerFunc{status(500, ""), status(502, "<html>")}, slept: []time.Duration{1 * time.Second, 2 * time.Second}},
		"NeverFine":      {reason: "but not for ever", first: []http.HandlerFunc{status(500, ""), status(500, ""), status(503, ""), status(500, ""), status(500, `{"message":"boom"}`)}, slept: []time.Duration{1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}, err: "500"},
		"NoJSON":         {reason: "a page of HTML is not a list", first: []http.HandlerFunc{status(200, "<html>login</html>")}, err: "list repositories of organisation acme"},
		"CutOff":         {reason: "half a list is not a list", first: []http.HandlerFunc{status(200, `[{"id":1,`)}, err: "list repositories of organisation acme"},
		"LimitWaitedFor": {reason: "a limit is waited for", first: []http.HandlerFunc{limited}, slept: []time.Duration{10*time.Minute + time.Second}},
		"LimitNotObeyed": {reason: "unless that is switched off", first: []http.HandlerFunc{limited}, args: []string{"--obey-rate-limit", "False"}, err: "rate limit is reached until 2026-11-20T12:10:01Z; give an access token"},
		"SecondaryLimit": {reason: "a secondary limit says how long", first: []http.HandlerFunc{status(403, `{"message":"You have exceeded a secondary rate limit"}`, "Retry-After", "30")}, slept: []time.Duration{30 * time.Second}},
		"LimitOfAYear":   {reason: "a limit without an end in sight is an error", first: []http.HandlerFunc{status(429, "", "Retry-After", "31536000")}, err: "that is more than 1h10m0s away"},
		"LimitAgain":     {reason: "waiting must help", first: []http.HandlerFunc{status(429, ""), status(429, ""), status(429, ""), status(429, ""), status(429, ""), status(429, "")}, slept: []time.Duration{time.Minute, time.Minute, time.Minute, time.Minute, time.Minute}, err: "waiting did not help"},
		"SentElsewhere":  {reason: "the token goes nowhere else", first: []http.HandlerFunc{status(302, "", "Location", "http://elsewhere.invalid/")}, err: "the server sends us to another one, elsewhere.invalid"},
		"FailsOnPageTwo": {reason: "half a result is not a result", first: []http.HandlerFunc{status(200, `[]`, "Link", `<http://x/?page=2>; rel="next"`), status(401, "")}, err: "wrong or expired"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.first = tc.first
			f.routes[hubRepos] = f.paged(hubRepo(1, "a", nil))
			s := run(t, map[string]string{"GITHUB_TOKEN": "s3cret"}, append([]string{"--git-type", "github", "--url", f.URL, "--organization", "acme"}, tc.args...)...)
			if diff := cmp.Diff(tc.slept, s.slept); diff != "" {
				t.Errorf("%s: slept %s", tc.reason, diff)
			}
			if strings.Contains(s.stderr, "s3cret") {
				t.Errorf("the token is in the log: %s", s.stderr)
			}
			if tc.err == "" {
				if s.err != nil || s.names(t) != "acme/a" {
					t.Errorf("%s: %v", tc.reason, s.err)
				}
				return
			}
			if s.err == nil || !strings.Contains(s.err.Error(), tc.err) {
				t.Errorf("%s: error %v, want %q", tc.reason, s.err, tc.err)
			}
			if s.err != nil && strings.Contains(s.err.Error(), "s3cret") {
				t.Errorf("the token is in the error: %v", s.err)
			}
			if s.findings(t) != nil {
				t.Errorf("%s: there is a result", tc.reason)
			}
		})
	}
}
