// SPDX-License-Identifier: Apache-2.0

package trackers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// GitHubAPI is the address of the API where none is set.
const GitHubAPI = "https://api.github.com"

// gitHub opens an issue for each finding that has none, and closes those whose finding is gone.
type gitHub struct {
	*issues

	address string // of the repository's issues
	header  http.Header
	labels  []string
	warned  bool
}

var repositoryName = regexp.MustCompile(`^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$`)

// NewGitHub makes what reports to the issues of a repository.
func NewGitHub(s *channel.Settings) (channel.Reporter, error) {
	token, err := s.Require("GITHUB_TOKEN")
	if err != nil {
		return nil, err
	}
	repository := s.Text("GITHUB_REPOSITORY", "")
	if !repositoryName.MatchString(repository) {
		return nil, fmt.Errorf("%s is %q, want owner/name", s.Variable("GITHUB_REPOSITORY"), repository)
	}
	api, err := s.URL("GITHUB_URL", GitHubAPI)
	if err != nil {
		return nil, err
	}
	g := &gitHub{
		address: strings.TrimSuffix(api, "/") + "/repos/" + repository + "/issues",
		header: channel.JSONHeader("Accept", "application/vnd.github+json", "X-GitHub-Api-Version", "2022-11-28",
			"Authorization", "Bearer "+token),
		labels: s.List("GITHUB_LABELS", ""),
	}
	g.issues = &issues{list: g.page}
	return g, nil
}

func (g *gitHub) page(ctx context.Context, t *channel.Task, page int) (found []listed, more bool, err error) {
	var entries []struct {
		Number int64  `json:"number"`
		State  string `json:"state"`
		Body   string `json:"body"`
	}
	answer, err := ask(ctx, t, g.address+"?labels="+trackerLabel+"&state=all&per_page=100&page="+strconv.Itoa(page), g.header, &entries)
	if err != nil {
		return nil, false, err
	}
	for _, e := range entries {
		found = append(found, listed{issue{e.Number, e.State == "open"}, e.Body})
	}
	return found, strings.Contains(answer.Header.Get("Link"), `rel="next"`), nil
}

// Report opens or closes the issue of a finding.
func (g *gitHub) Report(ctx context.Context, t *channel.Task, e *message.Entry) error {
	known, there, err := g.find(ctx, t, e.Key, false)
	switch {
	case err != nil:
		return err
	case e.State == compare.Fixed && there && known.open:
		return g.close(ctx, t, e.Key, known)
	case e.State == compare.Fixed || there:
		return nil
	}
	value, err := t.Overridden(map[string]any{"title": e.Title, "body": e.Text, "labels": withLabel(g.labels, trackerLabel)}, e)
	if err != nil {
		return err
	}
	value["labels"] = withLabel(value["labels"], trackerLabel)
	value["body"] = message.PlainText(value["body"]) + marker(e.Key)
	answer, err := create(ctx, t, &delivery.Request{URL: g.address, Header: g.header, Accept: limitedStatus, Check: checkLimited}, value,
		func(ctx context.Context) (bool, error) {
			_, there, err := g.find(ctx, t, e.Key, true)
			return there, err
		})
	if err != nil || answer == nil {
		return err
	}
	return g.remember(t, e.Key, answer)
}

// remember notes the new issue, and warns where it will not be found again.
func (g *gitHub) remember(t *channel.Task, key string, answer *delivery.Answer) error {
	var created struct {
		Number int64 `json:"number"`
		Labels []any `json:"labels"`
	}
	if err := answer.JSON(&created); err != nil {
		return nil //nolint:nilerr // the issue is there, whatever is said about it
	}
	g.byKey[key] = issue{created.Number, true}
	if len(created.Labels) == 0 && !g.warned {
		g.warned = true
		t.Session.Notef("channel %q: GitHub drops the labels of issues, because the token may not set any; "+
			"without them the next run opens the issues again", t.Name)
	}
	return nil
}

func (g *gitHub) close(ctx context.Context, t *channel.Task, key string, known issue) error {
	body, err := delivery.JSON(map[string]any{"state": "closed", "state_reason": "completed"})
	if err != nil {
		return err
	}
	_, err = t.Client.Do(ctx, &delivery.Request{
		Method: http.MethodPatch, URL: g.address + "/" + strconv.FormatInt(known.number, 10), Header: g.header, Body: body,
		Accept: limitedStatus, Check: checkLimited,
	})
	if err == nil {
		g.byKey[key] = issue{known.number, false}
	}
	return err
}

// limitedStatus is what GitHub answers to those who ask too often, and to those who may not ask.
var limitedStatus = []int{http.StatusForbidden}

// limitPause is how long to wait where GitHub does not say.
const limitPause = time.Minute

// checkLimited distinguishes the two.
func checkLimited(answer *delivery.Answer) error {
	if answer.Status != http.StatusForbidden {
		return nil
	}
	err := errors.New(http.StatusText(answer.Status) + ": " + delivery.Excerpt(string(answer.Body[:min(len(answer.Body), 400)])))
	if seconds, parseErr := strconv.Atoi(answer.Header.Get("Retry-After")); parseErr == nil && seconds >= 0 {
		return delivery.TryAgain(err, time.Duration(min(seconds, 1<<20))*time.Second)
	}
	if answer.Header.Get("X-Ratelimit-Remaining") == "0" || strings.Contains(string(answer.Body), "rate limit") {
		return delivery.TryAgain(err, limitPause)
	}
	return err
}
