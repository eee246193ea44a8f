// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

const gitLabURL = "https://gitlab.com"

// gitLab opens an issue for each finding that has none, and closes those whose finding is gone.
type gitLab struct {
	*issues

	address string // of the project's issues
	header  http.Header
	labels  []string
}

func newGitLab(s *settings) (reporter, error) {
	token, err := s.require("GITLAB_TOKEN")
	if err != nil {
		return nil, err
	}
	project := s.plain("GITLAB_PROJECT", "")
	if project == "" {
		return nil, fmt.Errorf("environment variable %s is not set", s.variable("GITLAB_PROJECT"))
	}
	host, err := s.url("GITLAB_URL", gitLabURL)
	if err != nil {
		return nil, err
	}
	g := &gitLab{
		address: strings.TrimSuffix(host, "/") + "/api/v4/projects/" + url.PathEscape(project) + "/issues",
		header:  jsonHeader("Private-Token", token),
		labels:  s.list("GITLAB_LABELS", ""),
	}
	g.issues = &issues{list: g.page}
	return g, nil
}

func (g *gitLab) page(ctx context.Context, t *task, page int) (found []listed, more bool, err error) {
	var entries []struct {
		Number      int64  `json:"iid"`
		State       string `json:"state"`
		Description string `json:"description"`
	}
	answer, err := t.ask(ctx, g.address+"?labels="+trackerLabel+"&scope=all&per_page=100&page="+strconv.Itoa(page), g.header, &entries)
	if err != nil {
		return nil, false, err
	}
	for _, e := range entries {
		found = append(found, listed{issue{e.Number, e.State == "opened"}, e.Description})
	}
	return found, answer.Header.Get("X-Next-Page") != "", nil
}

func (g *gitLab) report(ctx context.Context, t *task, e *entry) error {
	known, there, err := g.find(ctx, t, e.key, false)
	switch {
	case err != nil:
		return err
	case e.state == compare.Fixed && there && known.open:
		return g.close(ctx, t, e.key, known)
	case e.state == compare.Fixed || there:
		return nil
	}
	value, err := t.overridden(map[string]any{"title": e.title, "description": e.text, "labels": withLabel(g.labels, trackerLabel)}, e)
	if err != nil {
		return err
	}
	value["labels"] = withLabel(value["labels"], trackerLabel)
	value["description"] = plainText(value["description"]) + marker(e.key)
	answer, err := t.create(ctx, &delivery.Request{URL: g.address, Header: g.header}, value,
		func(ctx context.Context) (bool, error) {
			_, there, err := g.find(ctx, t, e.key, true)
			return there, err
		})
	if err != nil || answer == nil {
		return err
	}
	var created struct {
		Number int64 `json:"iid"`
	}
	if answer.JSON(&created) == nil {
		g.byKey[e.key] = issue{created.Number, true}
	}
	return nil
}

func (g *gitLab) close(ctx context.Context, t *task, key string, known issue) error {
	body, err := delivery.JSON(map[string]any{"state_event": "close"})
	if err != nil {
		return err
	}
	_, err = t.client.Do(ctx, &delivery.Request{
		Method: http.MethodPut, URL: g.address + "/" + strconv.FormatInt(known.number, 10), Header: g.header, Body: body,
	})
	if err == nil {
		g.byKey[key] = issue{known.number, false}
	}
	return err
}
