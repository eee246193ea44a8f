// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// labProject is a project as GitLab documents it, as far as it matters.
func labProject(id int, path string, namespace int, more map[string]any) map[string]any {
	group, name, _ := strings.Cut(path, "/")
	p := map[string]any{
		"id": id, "name": name, "path_with_namespace": path, "web_url": "https://gitlab.example/" + path,
		"visibility": "private", "archived": false, "topics": []string{},
		"created_at": "2020-09-02T13:39:10.123Z", "last_activity_at": "2026-11-19T12:00:00.000+02:00",
		"namespace": map[string]any{"id": namespace, "name": strings.ToUpper(group), "kind": "group", "full_path": group},
	}
	maps.Copy(p, more)
	return p
}

func TestGitLabGroup(t *testing.T) {
	f := newFake(t)
	f.routes["/api/v4/groups/acme%2Fteam/projects"] = f.keyset(
		labProject(1, "acme/a", 10, map[string]any{"archived": true, "topics": []string{"x"}}),
		labProject(2, "acme/sub", 11, map[string]any{"visibility": "internal"}),
		labProject(3, "other/shared", 20, map[string]any{"visibility": "public"}),
		labProject(4, "acme/last", 10, map[string]any{"topics": nil, "last_activity_at": nil}),
		labProject(5, "acme/end", 10, nil),
	)
	s := run(t, map[string]string{"GITLAB_TOKEN": "s3cret"}, "--git-type", "Gitlab", "--url", f.URL, "--group", "acme/team", "--ignore-groups", "20", "--ignore-repos", "5")
	if s.err != nil {
		t.Fatal(s.err)
	}
	got := s.findings(t)
	want := finding{
		Name: "GitLab Repo", Description: "A GitLab repository", Category: "Git Repository", OSILayer: "APPLICATION", Severity: "INFORMATIONAL",
		Attributes: repository{
			ID: "1", WebURL: "https://gitlab.example/acme/a", FullName: "acme/a", OwnerType: "group", OwnerID: "10", OwnerName: "ACME",
			CreatedAt: "2020-09-02T13:39:10Z", LastActivityAt: "2026-11-19T10:00:00Z", Visibility: "private", Archived: true, Topics: []string{"x"},
		},
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
	if names := s.names(t); names != "acme/a acme/sub acme/last" {
		t.Errorf("found %q", names)
	}
	q := f.requests[0].URL.Query()
	if q.Get("include_subgroups") != "true" || q.Get("with_shared") != "true" || q.Get("per_page") != "100" {
		t.Errorf("query %v", q)
	}
	for _, r := range f.requests {
		if r.Header.Get("PRIVATE-TOKEN") != "s3cret" {
			t.Errorf("%s without the token", r.URL)
		}
	}
	if len(f.requests) != 3 {
		t.Errorf("%d requests, want 3 pages", len(f.requests))
	}
}

func TestGitLabOldServerWithNumberedPages(t *testing.T) {
	f := newFake(t)
	f.routes["/api/v4/groups/7/projects"] = f.paged(labProject(1, "a/a", 1, nil), labProject(2, "a/b", 1, nil), labProject(3, "a/c", 1, nil))
	s := run(t, nil, "--git-type", "gitlab", "--url", f.URL, "--group", "7")
	if s.err != nil {
		t.Fatal(s.err)
	}
	if names := s.names(t); names != "a/a a/b a/c" {
		t.Errorf("found %q", names)
	}
}

func TestGitLabWholeServerWithCommits(t *testing.T) {
	f := newFake(t)
	f.routes["/api/v4/projects"] = f.keyset(labProject(1, "a/a", 1, nil), labProject(2, "a/empty", 1, nil), labProject(3, "a/wiki-only", 1, nil))
	f.routes["/api/v4/projects/1/repository/commits"] = status(200, `[{"id":"b16b0ddfbad578a35fe54100b9192165ac2f5c0c"}]`)
	f.routes["/api/v4/projects/3/repository/commits"] = status(403, `{"message":"403 Forbidden"}`)
	s := run(t, nil, "--git-type", "gitlab", "--url", f.URL+"/", "--annotate-latest-commit-id")
	if s.err != nil {
		t.Fatal(s.err)
	}
	var got []string
	for _, g := range s.findings(t) {
		got = append(got, g.Attributes.LastCommitID)
	}
	if diff := cmp.Diff([]string{"b16b0ddfbad578a35fe54100b9192165ac2f5c0c", "", ""}, got); diff != "" {
		t.Error(diff)
	}
}

func TestGitLabTrouble(t *testing.T) {
	tests := map[string]struct {
		code  int
		args  []string
		slept []time.Duration
		err   string
	}{
		"Unauthorized": {code: 401, err: "the access token is missing, wrong or expired"},
		"Forbidden":    {code: 403, err: "GitLab read_api"},
		"NotFound":     {code: 404, err: "list projects of group 7: the server responds with 404"},
		"ServerError":  {code: 500, slept: []time.Duration{time.Second}},
		"Limit":        {code: 429, slept: []time.Duration{time.Minute}},
		"LimitUnheard": {code: 429, args: []string{"--obey-rate-limit=false"}, err: "rate limit"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.first = append(f.first, status(tc.code, `{"message":"no"}`))
			f.routes["/api/v4/groups/7/projects"] = f.keyset(labProject(1, "a/a", 1, nil))
			s := run(t, nil, append([]string{"--git-type", "gitlab", "--url", f.URL, "--group", "7"}, tc.args...)...)
			if diff := cmp.Diff(tc.slept, s.slept); diff != "" {
				t.Error(diff)
			}
			if tc.err == "" {
				if s.err != nil || s.names(t) != "a/a" {
					t.Error(s.err)
				}
				return
			}
			if s.err == nil || !strings.Contains(s.err.Error(), tc.err) || s.findings(t) != nil {
				t.Errorf("error %v, want %q and no result", s.err, tc.err)
			}
		})
	}
}
