// SPDX-License-Identifier: Apache-2.0

package trackers

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// GitLabURL is the address where none is set.
const GitLabURL = "https://gitlab.com"

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
	return &issues{tracker: tracker{
		address: strings.TrimSuffix(host, "/") + "/api/v4/projects/" + url.PathEscape(project) + "/issues",
		header:  channel.JSONHeader("Private-Token", token),
		labels:  s.List("GITLAB_LABELS", ""),
		every:   "scope=all", open: "opened", text: "description",
		more:   func(answer *delivery.Answer) bool { return answer.Header.Get("X-Next-Page") != "" },
		method: http.MethodPut, closing: map[string]any{"state_event": "close"},
	}}, nil
}
