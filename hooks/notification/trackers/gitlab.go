// SPDX-License-Identifier: Apache-2.0

package trackers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// GitLabURL is the address where none is set.
const GitLabURL = "https://gitlab.com"

// gitLab opens an issue for each finding that has none, and closes those whose finding is gone.
type gitLab struct {
	*issues

	address string // of the project's issues
	header  http.Header
	labels  []string
}

// NewGitLab makes what reports to the issues of a project.
func NewGitLab(s *channel.Settings) (channel.Reporter, error) {
	token, err := s.Require("GITLAB_TOKEN")
	if err != nil {
		return nil, err
	}
	project := s.Text("GITLAB_PROJECT", "")
	if project == "" {
		return nil, fmt.Errorf("environment variable %s is not set", s.Variable("GITLAB_PROJECT"))
	}
	host, err := s.URL("GITLAB_URL", GitLabURL)
	if err != nil {
		return nil, err
	}
	g := &gitLab{
		address: strings.TrimSuffix(host, "/") + "/api/v4/projects/" + url.PathEscape(project) + "/issues",
		header:  channel.JSONHeader("Private-Token", token),
		labels:  s.List("GITLAB_LABELS", ""),
	}
	g.issues = &issues{list: g.page}
	return g, nil
}

func (g *gitLab) page(ctx context.Context, t *channel.Task, page int) (found []listed, more bool, err error) {
	var entries []struct {
		Number      int64  `json:"iid"`
		State       string `json:"state"`
		Description string `json:"description"`
	}
	answer, err := ask(ctx, t, g.address+"?labels="+trackerLabel+"&scope=all&per_page=100&page="+strconv.Itoa(page), g.header, &entries)
	if err != nil {
		return nil, false, err
	}
	for _, e := range entries {
		found = append(found, listed{issue{e.Number, e.State == "opened"}, e.Description})
	}
	return found, answer.Header.Get("X-Next-Page") != "", nil
}

// Report opens or closes the issue of a finding.
func (g *gitLab) Report(ctx context.Context, t *channel.Task, e *message.Entry) error {
	known, there, err := g.find(ctx, t, e.Key, false)
	switch {
	case err != nil:
		return err
	case e.State == compare.Fixed && there && known.open:
		return g.close(ctx, t, e.Key, known)
	case e.State == compare.Fixed || there:
		return nil
	}
	value, err := t.Overridden(map[string]any{"title": e.Title, "description": e.Text, "labels": withLabel(g.labels, trackerLabel)}, e)
	if err != nil {
		return err
	}
	value["labels"] = withLabel(value["labels"], trackerLabel)
	value["description"] = message.PlainText(value["description"]) + marker(e.Key)
	answer, err := create(ctx, t, &delivery.Request{URL: g.address, Header: g.header}, value,
		func(ctx context.Context) (bool, error) {
			_, there, err := g.find(ctx, t, e.Key, true)
			return there, err
		})
	if err != nil || answer == nil {
		return err
	}
	var created struct {
		Number int64 `json:"iid"`
	}
	if answer.JSON(&created) == nil {
		g.byKey[e.Key] = issue{created.Number, true}
	}
	return nil
}

func (g *gitLab) close(ctx context.Context, t *channel.Task, key string, known issue) error {
	body, err := delivery.JSON(map[string]any{"state_event": "close"})
	if err != nil {
		return err
	}
	_, err = t.Client.Do(ctx, &delivery.Request{
		Method: http.MethodPut, URL: g.address + "/" + strconv.FormatInt(known.number, 10), Header: g.header, Body: body,
	})
	if err == nil {
		g.byKey[key] = issue{known.number, false}
	}
	return err
}
