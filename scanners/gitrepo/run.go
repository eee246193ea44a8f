// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/scanyard/scanyard/podkit/retry"
)

// Process is what a scan gets from its surroundings.
type Process struct {
	Args   []string
	Env    func(string) string
	Stderr io.Writer
	Clock  retry.Clock
	// Random is the jitter of pauses, from 0 to below 1. Nil is chance.
	Random    func() float64
	Transport http.RoundTripper
}

// source lists repositories.
type source interface {
	// list calls yield for each repository, as long as that returns no error.
	list(ctx context.Context, yield func(found) error) error
}

// found is a repository before filters.
type found struct {
	id, group int64
	activity  time.Time
	repository
	// lastCommit asks for the newest commit of the default branch; empty if there is none.
	lastCommit func(context.Context) (string, error)
}

// Run does a scan and writes its result. Its error is a *UsageError for a command line that makes no sense, and
// flag.ErrHelp if help was asked for.
func Run(ctx context.Context, p Process) error {
	o, err := parseOptions(p.Args, p.Env, p.Stderr)
	if err != nil {
		return err
	}
	log := func(format string, args ...any) { fmt.Fprintf(p.Stderr, "git-repo-scanner: "+format+"\n", args...) }
	src, product, err := newSource(o, p, log)
	if err != nil {
		return &UsageError{err}
	}
	out, err := newResult(o.fileOutput)
	if err != nil {
		return err
	}
	err = src.list(ctx, func(f found) error {
		if o.leavesOut(f, p.Clock.Now()) {
			return nil
		}
		if o.annotate {
			if f.LastCommitID, err = f.lastCommit(ctx); err != nil {
				return fmt.Errorf("latest commit of %s: %w", f.FullName, err)
			}
		}
		return out.add(newFinding(product, f.repository))
	})
	if err := out.finish(err); err != nil {
		return err
	}
	log("found %d repositories", out.count)
	return nil
}

// leavesOut applies the filters.
func (o *options) leavesOut(f found, now time.Time) bool {
	switch {
	case o.ignoreRepos[f.id], o.ignoreGroups[f.group]:
		return true
	case o.since != nil && f.activity.Before(now.Add(-*o.since)):
		return true
	case o.until != nil && f.activity.After(now.Add(-*o.until)):
		return true
	}
	return false
}

// newSource sets up the client of a server; the second result is the product's name in findings.
func newSource(o *options, p Process, log func(string, ...any)) (source, string, error) {
	transport := &polite{next: p.Transport, clock: p.Clock, random: p.Random, obey: o.obeyLimit, log: log, token: o.token}
	if o.gitType == gitLab {
		s, err := newGitLab(o, transport)
		return s, "GitLab", err
	}
	s, err := newGitHub(o, transport)
	return s, "GitHub", err
}

// newHTTPClient follows redirects on the same host only: another one would not know the token, and an API has no
// reason to send anybody there.
func newHTTPClient(t http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: t,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
				return fmt.Errorf("the server sends us to another one, %s; is --url right?", req.URL.Host)
			}
			if len(via) > 5 {
				return errors.New("the server sends us round in circles; is --url right?")
			}
			return nil
		},
	}
}

// explain turns a server's response into an error that says what the user can do. Status 0 is none.
func explain(status int, what string, err error) error {
	var hint string
	switch status {
	case http.StatusUnauthorized:
		hint = "the access token is missing, wrong or expired; see --access-token"
	case http.StatusForbidden:
		hint = "the access token does not allow this; GitHub wants the scope repo, GitLab read_api"
	case http.StatusNotFound:
		hint = "no such organisation, group or repository exists, or the access token may not read it"
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: the server responds with %d: %s", what, status, hint)
}

// IsHelp reports that only help was asked for.
func IsHelp(err error) bool { return errors.Is(err, flag.ErrHelp) }
