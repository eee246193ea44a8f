// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const usage = `git-repo-scanner lists the repositories of a GitHub organisation or a GitLab group as findings.

  git-repo-scanner --file-output DIR --git-type github --organization NAME [options]
  git-repo-scanner --file-output DIR --git-type gitlab --url URL [--group ID] [options]

`

// The two kinds of servers.
const (
	gitHub = "github"
	gitLab = "gitlab"
)

// options are the parameters of a scan.
type options struct {
	gitType      string
	url          string
	token        string
	organization string
	group        string
	fileOutput   string
	ignoreRepos  map[int64]bool
	ignoreGroups map[int64]bool
	obeyLimit    bool
	annotate     bool
	// since and until count back from now; nil means no bound.
	since, until *time.Duration
}

// UsageError says that the command line makes no sense.
type UsageError struct{ err error }

// Error returns the mistake.
func (e *UsageError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *UsageError) Unwrap() error { return e.err }

func parseOptions(args []string, env func(string) string, out io.Writer) (*options, error) {
	o := &options{ignoreRepos: map[int64]bool{}, ignoreGroups: map[int64]bool{}}
	fs := flag.NewFlagSet("git-repo-scanner", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() { fmt.Fprint(out, usage); fs.PrintDefaults() }
	fs.StringVar(&o.gitType, "git-type", "", "github or gitlab")
	fs.StringVar(&o.url, "url", "", "address of the GitLab server, or of the API of a GitHub Enterprise server")
	fs.StringVar(&o.token, "access-token", "", "access token; without this option it is read from GITHUB_TOKEN or GITLAB_TOKEN")
	fs.StringVar(&o.organization, "organization", "", "the GitHub organisation to list")
	fs.StringVar(&o.group, "group", "", "ID or path of the GitLab group to list, with its subgroups; without it all projects of the server are listed")
	fs.StringVar(&o.fileOutput, "file-output", "", "folder for git-repo-scanner-findings.json")
	fs.Func("ignore-repos", "`IDs` of repositories to leave out, separated by commas or spaces", ids(o.ignoreRepos))
	fs.Func("ignore-groups", "`IDs` of GitLab groups to leave out, separated by commas or spaces; their subgroups stay", ids(o.ignoreGroups))
	fs.BoolVar(&o.obeyLimit, "obey-rate-limit", true, "wait when the server's rate limit is reached; false ends the scan with an error then")
	fs.BoolVar(&o.annotate, "annotate-latest-commit-id", false, "add last_commit_id, at the price of one more request for each repository")
	fs.Func("activity-since-duration", "only repositories with activity after now minus this `duration`, as 12h, 7d, 2w3d", duration(&o.since))
	fs.Func("activity-until-duration", "only repositories with activity before now minus this `duration`", duration(&o.until))
	if err := fs.Parse(joinValues(args)); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, &UsageError{err}
	}
	if fs.NArg() > 0 {
		return nil, &UsageError{fmt.Errorf("parameter %q belongs to no option", fs.Arg(0))}
	}
	if err := o.complete(env); err != nil {
		return nil, &UsageError{err}
	}
	return o, nil
}

var (
	listFlag = regexp.MustCompile(`^--?ignore-(repos|groups)$`)
	boolFlag = regexp.MustCompile(`^--?(obey-rate-limit|annotate-latest-commit-id)$`)
	listForm = regexp.MustCompile(`^[0-9][0-9,]*$`)
)

// joinValues makes of "--ignore-repos 1 2" and "--obey-rate-limit False", which Scans have been written with, what
// the flag package reads.
func joinValues(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case listFlag.MatchString(a):
			n := i + 1
			for n < len(args) && listForm.MatchString(args[n]) {
				out = append(out, a+"="+args[n])
				n++
			}
			if n == i+1 {
				out = append(out, a)
			}
			i = n - 1
		case boolFlag.MatchString(a) && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			out = append(out, a+"="+args[i+1])
			i++
		default:
			out = append(out, a)
		}
	}
	return out
}

func ids(into map[int64]bool) func(string) error {
	return func(s string) error {
		for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ' ' }) {
			id, err := strconv.ParseInt(part, 10, 64)
			if err != nil {
				return fmt.Errorf("%q is not an ID", part)
			}
			into[id] = true
		}
		return nil
	}
}

func duration(into **time.Duration) func(string) error {
	return func(s string) error {
		d, err := parseDuration(s)
		if err != nil {
			return err
		}
		*into = &d
		return nil
	}
}

var (
	durationForm = regexp.MustCompile(`^([+-]?)((?:[0-9]+(?:\.[0-9]+)?(?:m|h|d|w))+)$`)
	durationPart = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)(m|h|d|w)`)
	units        = map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
)

// parseDuration reads a sum of numbers with units: 90m, 2h45m, 1.5d, 2w.
func parseDuration(s string) (time.Duration, error) {
	m := durationForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a duration; write numbers with the units m, h, d, w, as 2h45m or 7d", s)
	}
	var sum float64
	for _, p := range durationPart.FindAllStringSubmatch(m[2], -1) {
		n, err := strconv.ParseFloat(p[1], 64)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", s, err)
		}
		sum += n * float64(units[p[2]])
	}
	const most = float64(200 * 365 * 24 * time.Hour) // within what a duration can hold
	if sum > most {
		return 0, fmt.Errorf("%q is more than 200 years", s)
	}
	if m[1] == "-" {
		sum = -sum
	}
	return time.Duration(sum), nil
}

// complete checks what belongs together, and finds the token.
func (o *options) complete(env func(string) string) error {
	var errs []error
	o.gitType = strings.ToLower(o.gitType)
	variable := map[string]string{gitHub: "GITHUB_TOKEN", gitLab: "GITLAB_TOKEN"}[o.gitType]
	switch o.gitType {
	case gitHub:
		if o.organization == "" {
			errs = append(errs, errors.New("--organization is missing: which GitHub organisation is to be listed?"))
		}
	case gitLab:
		if o.url == "" {
			errs = append(errs, errors.New("--url is missing: which GitLab server is to be listed, as https://gitlab.com?"))
		}
	case "":
		errs = append(errs, errors.New("--git-type is missing; write github or gitlab"))
	default:
		errs = append(errs, fmt.Errorf("--git-type %q is not known; write github or gitlab", o.gitType))
	}
	if o.fileOutput == "" {
		errs = append(errs, errors.New("--file-output is missing: the folder for the result"))
	}
	if o.url != "" {
		if u, err := url.Parse(o.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, errors.New("--url must be an address that starts with https:// or http://"))
		}
	}
	if o.since != nil && o.until != nil && *o.since <= *o.until {
		errs = append(errs, errors.New("--activity-since-duration must be longer than --activity-until-duration: no time lies between them"))
	}
	if o.token == "" && variable != "" {
		o.token = env(variable)
	}
	// Kubernetes keeps a reference literally when the variable does not exist.
	if strings.HasPrefix(o.token, "$(") {
		errs = append(errs, errors.New("--access-token names a variable that is not set; see env of the Scan"))
	}
	return errors.Join(errs...)
}
