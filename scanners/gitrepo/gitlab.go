// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	gitlab "gitlab.com/gitlab-org/api/client-go/v2"
)

// lab lists the projects of a group, or of a whole server.
type lab struct {
	client *gitlab.Client
	group  string
}

// unlimited does not slow down requests: the transport waits where the server asks for it.
type unlimited struct{}

// Wait returns at once.
func (unlimited) Wait(context.Context) error { return nil }

func newGitLab(o *options, t *polite) (*lab, error) {
	u, err := url.Parse(o.url)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	t.host, t.header = u.Host, "PRIVATE-TOKEN"
	// The transport adds the token and tries again.
	c, err := gitlab.NewClient(
		"", gitlab.WithBaseURL(o.url), gitlab.WithHTTPClient(newHTTPClient(t)),
		gitlab.WithCustomLimiter(unlimited{}), gitlab.WithoutRetries(),
	)
	if err != nil {
		return nil, fmt.Errorf("set up GitLab client: %w", err)
	}
	return &lab{c, o.group}, nil
}

// list goes by ID. Servers page by keyset where they can, which is the only way past 50,000 projects.
func (l *lab) list(ctx context.Context, yield func(found) error) error {
	page := gitlab.ListOptions{PerPage: pageSize, Pagination: "keyset", OrderBy: "id", Sort: "asc"}
	options := []gitlab.RequestOptionFunc{gitlab.WithContext(ctx)}
	for {
		projects, resp, err := l.page(page, options)
		if err != nil {
			return explain(labStatus(err), l.what(), err)
		}
		for _, p := range projects {
			if err := yield(l.convert(p)); err != nil {
				return err
			}
		}
		next, more := gitlab.WithNext(resp)
		if !more {
			return nil
		}
		options = []gitlab.RequestOptionFunc{gitlab.WithContext(ctx), next}
	}
}

func (l *lab) what() string {
	if l.group == "" {
		return "list projects"
	}
	return "list projects of group " + l.group
}

// page requests one page. A group's projects include the projects of its subgroups, and projects shared with the group.
func (l *lab) page(page gitlab.ListOptions, options []gitlab.RequestOptionFunc) ([]*gitlab.Project, *gitlab.Response, error) {
	if l.group == "" {
		return l.client.Projects.ListProjects(&gitlab.ListProjectsOptions{ListOptions: page}, options...)
	}
	yes := true
	return l.client.Groups.ListGroupProjects(l.group, &gitlab.ListGroupProjectsOptions{ListOptions: page, IncludeSubGroups: &yes, WithShared: &yes}, options...)
}

func labStatus(err error) int {
	if e, ok := errors.AsType[*gitlab.ErrorResponse](err); ok && e.Response != nil {
		return e.Response.StatusCode
	}
	if errors.Is(err, gitlab.ErrNotFound) {
		return http.StatusNotFound
	}
	return 0
}

func (l *lab) convert(p *gitlab.Project) found {
	f := found{
		id: p.ID,
		repository: repository{
			ID: strconv.FormatInt(p.ID, 10), WebURL: p.WebURL, FullName: p.PathWithNamespace,
			Visibility: string(p.Visibility), Archived: p.Archived, Topics: p.Topics,
			CreatedAt: timestamp(value(p.CreatedAt)), LastActivityAt: timestamp(value(p.LastActivityAt)),
		},
		activity:   value(p.LastActivityAt),
		lastCommit: func(ctx context.Context) (string, error) { return l.lastCommit(ctx, p.ID) },
	}
	if n := p.Namespace; n != nil {
		f.group = n.ID
		f.OwnerType, f.OwnerID, f.OwnerName = n.Kind, strconv.FormatInt(n.ID, 10), n.Name
	}
	return f
}

func value(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func (l *lab) lastCommit(ctx context.Context, project int64) (string, error) {
	commits, _, err := l.client.Commits.ListCommits(project, &gitlab.ListCommitsOptions{ListOptions: gitlab.ListOptions{PerPage: 1}}, gitlab.WithContext(ctx))
	status := labStatus(err)
	// 404 is an empty repository, 403 a project without one.
	if status == http.StatusNotFound || status == http.StatusForbidden {
		return "", nil
	}
	if err != nil {
		return "", explain(status, "list commits", err)
	}
	if len(commits) == 0 {
		return "", nil
	}
	return commits[0].ID, nil
}
