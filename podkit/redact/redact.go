// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"errors"
	"net/url"
	"regexp"
)

const (
	// Mark replaces hidden text in a text for people.
	Mark = "…"
	// DocumentMark replaces hidden text in a document.
	DocumentMark = "REDACTED"
)

// Names of fields that hold secrets.
const (
	// exactName is a whole name, or the end of one.
	exactName = `(?:authorization|api[-_]?key|token|secret|passw(?:or)?d|routing[-_]key|signature)`
	// likeName has a word in it that may mean one.
	likeName = `[A-Za-z0-9_.-]*(?i:pass(?:w(?:or)?d|phrase|wd|code|key)?|pwd|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|account[-_]?key|` +
		`credential|cookie|session|authorization|auth|bearer|signature|jwt)[A-Za-z0-9_.-]*`
	// value is the value after a name: quoted, escaped quoted inside another string, or one word.
	value = `(\\?"[^"\\]*\\?"|'[^']*'|(?:(?i:basic|bearer|token)\s+)?[^\s,;&"']+)`
	// begins is where a flag may begin inside a shell string or a log.
	begins = `((?:^|[\s"'(;|&])`
)

// rule hides the matches of an expression, except for its first group if it has one.
type rule struct {
	find *regexp.Regexp
	keep string
	end  string
}

func hide(expression string) rule { return rule{find: regexp.MustCompile(expression)} }

func hideAfter(expression string) rule {
	return rule{find: regexp.MustCompile(expression), keep: "${1}"}
}

func (r rule) apply(s, mark string) string {
	return r.find.ReplaceAllString(s, r.keep+mark+r.end)
}

func all(s, mark string, rules []rule) string {
	for _, r := range rules {
		s = r.apply(s, mark)
	}
	return s
}

var (
	// anyQuery also matches a query whose address was cut off.
	anyQuery = hideAfter(`(\?)[^\s"'<>]+`)
	// query is the query of an address: in a log a question mark may end a question.
	query    = hideAfter(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>?]*\?)[^\s"'<>]*`)
	userInfo = rule{regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s"'<>/?#@]*@`), "${1}", "@"}
	// keys in PEM.
	pem = hide(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
	// a header value behind its scheme.
	scheme = hideAfter(`(?i)(\b(?:basic|bearer)\s+)[A-Za-z0-9._~+/=-]{6,}`)
	// named finds token=…, "api_key": "…", Authorization: Bearer ….
	named = hideAfter(`(?i)(` + exactName + `["']?\s*[:=]\s*["']?)(?:(?:basic|bearer|token)\s+)?[^\s"',;&}]+`)
	// likeNamed finds name=value and name: value, in arguments, logs and headers.
	likeNamed = hideAfter(`(` + likeName + `\\?"?\s*[=:]\s*)` + value)
	// flagAndValue is a flag with its value behind a space.
	flagAndValue = hideAfter(begins + `--?` + likeName + `\s+)` + value)
	// userFlag is -u user:password, of curl and others, also as one word.
	userFlag = hideAfter(begins + `(?:-u|--user|--proxy-user|-U)[\s=]*)(?:"[^"]*"|'[^']*'|[^\s"':]+:[^\s"']+)`)
	// stuckPassword is -pPASSWORD, of mysql and others: letters right behind -p; ports are digits.
	stuckPassword = hideAfter(begins + `-p)(?:[^\s"'0-9=-][^\s"']*|'[^']*'|"[^"]*")`)
	// headerFlag is the flag of headers of curl and others.
	headerFlag = hideAfter(begins + `(?:-H|--header)[\s=]*)(?:"[^"]*"|'[^']*')`)
	// known are forms by which credentials are recognized anywhere: tokens of JWT, keys of AWS, Google and Slack, tokens
	// of GitHub, GitLab, npm, PyPI, Docker, Stripe, SendGrid, Telegram, DigitalOcean, HashiCorp and Atlassian.
	known = []rule{
		hide(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)*`),
		hide(`\b(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA)[A-Z0-9]{12,}\b`),
		hide(`\b(?:gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,}|gl(?:pat|ptt|dt|cbt|rt|soat)-[A-Za-z0-9_.-]{16,})`),
		hide(`\bx(?:ox[abeoprs]|app|oxe)-[A-Za-z0-9-]{8,}`),
		hide(`https://hooks\.slack\.com/[^\s"'<>]+`),
		hide(`\bAIza[A-Za-z0-9_-]{30,}|\bya29\.[A-Za-z0-9_-]{16,}`),
		hide(
			`\b(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{16,}|dckr_pat_[A-Za-z0-9_-]{16,}|dop_v1_[a-f0-9]{32,}|hv[sbr]\.[A-Za-z0-9_-]{16,}|ATATT[A-Za-z0-9_=-]{16,})`,
		),
		hide(`\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{8,}|\bsk-[A-Za-z0-9_-]{20,}|\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|\b[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}`),
	}
	// likeNameOnly is a name of a field or an annotation whose value is a secret, and likeFlagOnly a flag.
	likeNameOnly = regexp.MustCompile(`^` + likeName + `$`)
	likeFlagOnly = regexp.MustCompile(`^--?` + likeName + `$`)
)

var (
	ofURLs     = []rule{anyQuery, userInfo}
	ofText     = append([]rule{pem, anyQuery, userInfo, named, scheme}, known...)
	ofDocument = append(append([]rule{pem, query, userInfo}, known...), headerFlag, userFlag, likeNamed, flagAndValue, stuckPassword, scheme)
)

// URLs removes queries and user information of addresses from a text of ours.
func URLs(s string) string { return all(s, Mark, ofURLs) }

// Text removes credentials from a text of others, by their form or by the exact name before them.
func Text(s string) string { return all(s, Mark, ofText) }

// Document removes everything that looks like a credential from a text that leaves the cluster.
func Document(s string) string { return all(s, DocumentMark, ofDocument) }

// IsName reports whether the name of a field or an annotation looks like the name of a secret.
func IsName(name string) bool { return likeNameOnly.MatchString(name) }

// IsFlag reports whether an argument is a flag whose value looks like a secret.
func IsFlag(argument string) bool { return likeFlagOnly.MatchString(argument) }

// clean is an error with a clean text.
type clean struct{ err error }

func (c clean) Error() string { return URLs(c.err.Error()) }

func (c clean) Unwrap() error { return c.err }

// Error cleans the text of an error of ours, see URLs. Its chain stays. Nil stays nil.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return clean{err}
}

// WithoutURL removes the *url.Error that net/http wraps around every error, since it carries the address.
func WithoutURL(err error) error {
	for {
		wrapper, ok := errors.AsType[*url.Error](err)
		if !ok {
			return err
		}
		err = wrapper.Err
	}
}
