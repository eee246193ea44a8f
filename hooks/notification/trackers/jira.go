// SPDX-License-Identifier: Apache-2.0

package trackers

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// jira opens an issue for each finding that has none. A label names the finding.
type jira struct {
	address            string
	header             http.Header
	project, issueType string
	labels             []string
	search             string // the path that this Jira searches at, as soon as that is known
}

var (
	projectKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
	// searches are where Jira Cloud and Jira Data Center search. Each answers the other's with a status of searchGone.
	searches   = []string{"/rest/api/2/search/jql", "/rest/api/2/search"}
	searchGone = []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone}
)

// NewJira makes what reports to the issues of a project.
func NewJira(s *channel.Settings) (channel.Reporter, error) {
	address, err := s.URL("JIRA_URL", "")
	if err != nil {
		return nil, err
	}
	token, err := s.Require("JIRA_TOKEN")
	if err != nil {
		return nil, err
	}
	user, err := s.Secret("JIRA_USER")
	if err != nil {
		return nil, err
	}
	j := &jira{
		address: strings.TrimSuffix(address, "/"), header: channel.JSONHeader("Authorization", "Bearer "+token),
		project: s.Text("JIRA_PROJECT", ""), issueType: s.Text("JIRA_ISSUE_TYPE", "Task"), labels: s.List("JIRA_LABELS", ""),
	}
	if user != "" {
		j.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+token)))
	}
	if !projectKey.MatchString(j.project) {
		return nil, fmt.Errorf("%s is %q, want the key of a project such as SEC", s.Variable("JIRA_PROJECT"), j.project)
	}
	return j, nil
}

// find looks for an issue that has a label.
func (j *jira) find(ctx context.Context, t *channel.Task, label string) (bool, error) {
	query := url.Values{
		"jql":    {fmt.Sprintf("project = %q AND labels = %q", j.project, label)},
		"fields": {"key"}, "maxResults": {"1"},
	}.Encode()
	paths := searches
	if j.search != "" {
		paths = []string{j.search}
	}
	for i, path := range paths {
		request := &delivery.Request{Method: http.MethodGet, URL: j.address + path + "?" + query, Header: j.header}
		if i < len(paths)-1 {
			request.Accept = searchGone
		}
		answer, err := t.Client.Do(ctx, request)
		if err != nil {
			return false, fmt.Errorf("look for the issue: %w", err)
		}
		if answer.Status >= http.StatusMultipleChoices {
			continue
		}
		var said struct {
			Issues []any `json:"issues"`
		}
		if err := answer.JSON(&said); err != nil {
			return false, fmt.Errorf("look for the issue: %w", err)
		}
		j.search = path
		return len(said.Issues) > 0, nil
	}
	return false, nil
}

// Report opens the issue of a finding.
func (j *jira) Report(ctx context.Context, t *channel.Task, e *message.Entry) error {
	label := trackerLabel + "-" + e.Key
	if there, err := j.find(ctx, t, label); err != nil || there {
		return err
	}
	text := "{noformat}\n" + e.Text + "{noformat}\n"
	if !e.Failure {
		text = t.Scan.Describe(e, noFormat)
	}
	value, err := t.Overridden(map[string]any{"fields": map[string]any{
		"project": map[string]any{"key": j.project}, "issuetype": map[string]any{"name": j.issueType},
		"summary": e.Title, "description": text, "labels": withLabel(j.labels, trackerLabel),
	}}, e)
	if err != nil {
		return err
	}
	if fields, ok := value["fields"].(map[string]any); ok {
		fields["labels"] = withLabel(withLabel(fields["labels"], trackerLabel), label)
	}
	_, err = create(ctx, t, &delivery.Request{URL: j.address + "/rest/api/2/issue", Header: j.header}, value,
		func(ctx context.Context) (bool, error) { return j.find(ctx, t, label) })
	return err
}

// noFormat puts a text where Jira takes nothing in it for markup.
func noFormat(text string) string {
	return "{noformat}\n" + strings.ReplaceAll(strings.TrimRight(text, "\n"), "{noformat}", "{ noformat }") + "\n{noformat}\n"
}
