// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/go-github/v89/github"
)

// pageSize is the most that both servers give.
const pageSize = 100

// hub lists the repositories of an organisation.
type hub struct {
	client       *github.Client
	organization string
}

func newGitHub(o *options, t *polite) (*hub, error) {
	t.host, t.header = "api.github.com", "Authorization"
	if t.token != "" {
		t.token = "Bearer " + t.token
	}
	opts := []github.ClientOptionsFunc{github.WithHTTPClient(newHTTPClient(t)), github.WithDisableRateLimitCheck()}
	if o.url != "" {
		u, err := url.Parse(o.url)
		if err != nil {
			return nil, fmt.Errorf("--url: %w", err)
		}
		t.host = u.Host
		opts = append(opts, github.WithEnterpriseURLs(o.url, o.url))
	}
	c, err := github.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("set up GitHub client: %w", err)
	}
	return &hub{c, o.organization}, nil
}

// list goes from the oldest to the newest, so that one made meanwhile does not shift the pages.
func (h *hub) list(ctx context.Context, yield func(found) error) error {
	opts := &github.RepositoryListByOrgOptions{Type: "all", Sort: "created", Direction: "asc", ListOptions: github.ListOptions{PerPage: pageSize}}
	for {
		repos, resp, err := h.client.Repositories.ListByOrg(ctx, h.organization, opts)
		if err != nil {
			return explain(hubStatus(err), "list repositories of organisation "+h.organization, err)
		}
		for _, r := range repos {
			if err := yield(h.convert(r)); err != nil {
				return err
			}
		}
		if resp.NextPage == 0 {
			return nil
		}
		opts.Page = resp.NextPage
	}
}

func hubStatus(err error) int {
	if e, ok := errors.AsType[*github.ErrorResponse](err); ok && e.Response != nil {
		return e.Response.StatusCode
	}
	return 0
}

func (h *hub) convert(r *github.Repository) found {
	visibility := r.GetVisibility()
	if visibility == "" { // servers before 3.4 have only the other field
		visibility = "public"
		if r.GetPrivate() {
			visibility = "private"
		}
	}
	owner := r.GetOwner()
	return found{
		id: r.GetID(), activity: r.GetUpdatedAt().Time,
		repository: repository{
			ID: strconv.FormatInt(r.GetID(), 10), WebURL: r.GetHTMLURL(), FullName: r.GetFullName(),
			OwnerType: owner.GetType(), OwnerID: strconv.FormatInt(owner.GetID(), 10), OwnerName: owner.GetLogin(),
			CreatedAt: timestamp(r.GetCreatedAt().Time), LastActivityAt: timestamp(r.GetUpdatedAt().Time),
			Visibility: visibility, Archived: r.GetArchived(), Topics: r.Topics,
		},
		lastCommit: func(ctx context.Context) (string, error) { return h.lastCommit(ctx, owner.GetLogin(), r.GetName()) },
	}
}

func (h *hub) lastCommit(ctx context.Context, owner, name string) (string, error) {
	commits, _, err := h.client.Repositories.ListCommits(ctx, owner, name, &github.CommitsListOptions{ListOptions: github.ListOptions{PerPage: 1}})
	status := hubStatus(err)
	// 409 is an empty repository, 404 one that was deleted meanwhile.
	if status == http.StatusConflict || status == http.StatusNotFound {
		return "", nil
	}
	if err != nil {
		return "", explain(status, "list commits", err)
	}
	if len(commits) == 0 {
		return "", nil
	}
	return commits[0].GetSHA(), nil
}
