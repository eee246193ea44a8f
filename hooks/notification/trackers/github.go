// SPDX-License-Identifier: Apache-2.0

package trackers

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// GitHubAPI is the address of the API where none is set.
const GitHubAPI = "https://api.github.com"

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
	return &issues{tracker: tracker{
		address: strings.TrimSuffix(api, "/") + "/repos/" + repository + "/issues",
		header: channel.JSONHeader("Accept", "application/vnd.github+json", "X-GitHub-Api-Version", "2022-11-28",
			"Authorization", "Bearer "+token),
		labels: s.List("GITHUB_LABELS", ""),
		every:  "state=all", open: "open", text: "body",
		more:   func(answer *delivery.Answer) bool { return strings.Contains(answer.Header.Get("Link"), `rel="next"`) },
		method: http.MethodPatch, closing: map[string]any{"state": "closed", "state_reason": "completed"},
		accept: limitedStatus, check: checkLimited,
		opened: warnOfDroppedLabels(),
	}}, nil
}

// warnOfDroppedLabels warns once where a new issue will not be found again.
func warnOfDroppedLabels() func(*channel.Task, *entry) {
	warned := false
	return func(t *channel.Task, created *entry) {
		if len(created.Labels) > 0 || warned {
			return
		}
		warned = true
		t.Session.Notef("channel %q: GitHub drops the labels of issues, because the token may not set any; "+
			"without them the next run opens the issues again", t.Name)
	}
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
