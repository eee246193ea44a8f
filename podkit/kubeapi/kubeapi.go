// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/podkit/redact"
	"github.com/scanyard/scanyard/podkit/retry"
)

// ErrAway wraps the last error of an API server that was not there for as long as it was waited for.
var ErrAway = errors.New("the API server cannot be used")

const (
	requestTimeout = 30 * time.Second
	maxAnswer      = 64 << 20 // far above a page of the largest objects
	firstPause     = 500 * time.Millisecond
	longestPause   = 15 * time.Second
)

// DefaultPatience is how long an API server that is away is waited for.
const DefaultPatience = 5 * time.Minute

// Policy is how an API server is waited for; clock and notice may be added.
func Policy(patience time.Duration) retry.Policy {
	return retry.Policy{First: firstPause, Longest: longestPause, Budget: patience}
}

// Config finds the API server: that of the file which KUBECONFIG names, else that of the pod.
func Config(env func(name string) string) (*rest.Config, error) {
	if file := env("KUBECONFIG"); file != "" {
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			return nil, fmt.Errorf("read KUBECONFIG: %w", err)
		}
		return config, nil
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	return config, nil
}

// Client asks the API server.
type Client struct {
	http   *http.Client
	base   *url.URL
	policy retry.Policy
}

// New returns a Client. Its name shows as the manager of the fields that it writes.
func New(config *rest.Config, name string, policy retry.Policy) (*Client, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = name
	if config.Timeout == 0 {
		config.Timeout = requestTimeout
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to talk to the API server: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server: %w", err)
	}
	return &Client{http: client, base: base, policy: policy}, nil
}

// Path is where something is on the API server, segment by segment. Names come from annotations and statuses that others
// may write, so no segment leads anywhere else: Do refuses those that have a slash or that a server would read otherwise.
type Path []string

// Join is a path below this one.
func (p Path) Join(segments ...string) Path { return slices.Concat(p, segments) }

// segment is what names of Kubernetes and of its groups are made of.
var segment = regexp.MustCompile(`^[A-Za-z0-9._:~-]+$`)

// ErrPath says that a segment of a Path is not a valid name.
var ErrPath = errors.New("is not a name that can stand in a path of the API")

// check refuses a path that leads elsewhere.
func (p Path) check() error {
	for _, s := range p {
		if !segment.MatchString(s) || strings.Trim(s, ".") == "" {
			return fmt.Errorf("%q %w", s, ErrPath)
		}
	}
	if len(p) == 0 {
		return fmt.Errorf("%q %w", "", ErrPath)
	}
	return nil
}

// Request is what is asked of an object or of a list.
type Request struct {
	// Method is GET where it is empty.
	Method string
	// Query selects and bounds.
	Query url.Values
	// Accept is a form of the answer other than the whole as JSON.
	Accept string
	// ContentType is that of Body, application/json where it is empty.
	ContentType string
	// Body is sent. Nil sends nothing.
	Body []byte
	// Again says of a refusal which others take for final that it may pass, after so many attempts. Optional.
	Again func(err error, attempts int) bool
}

// Do makes a request, which must be safe to repeat, until there is an answer that asking again would not change.
func (c *Client) Do(ctx context.Context, at Path, r Request) ([]byte, error) {
	if err := at.check(); err != nil {
		return nil, err
	}
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	target := c.base.JoinPath(at...)
	target.RawQuery = r.Query.Encode()
	loop := c.policy.Begin()
	for {
		body, asked, err := c.once(ctx, target.String(), r)
		if err == nil {
			return body, nil
		}
		if ctx.Err() == nil && !mayPass(err) && (r.Again == nil || !r.Again(err, loop.Attempts()+1)) {
			return nil, err
		}
		if failed := loop.Wait(ctx, err, asked); failed != nil {
			if ctx.Err() == nil && mayPass(err) {
				failed = fmt.Errorf("%w: %w", ErrAway, failed)
			}
			return nil, failed
		}
	}
}

// once makes the request once; asked is how long the server asked to wait.
func (c *Client) once(ctx context.Context, target string, r Request) (body []byte, asked time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, target, bytes.NewReader(r.Body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "application/json")
	if r.Accept != "" {
		req.Header.Set("Accept", r.Accept)
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		return body, 0, err
	}
	err = fmt.Errorf("the API server answers %d %s: %w", resp.StatusCode, http.StatusText(resp.StatusCode), refusal(resp.StatusCode, r.Method, body))
	return nil, retry.After(resp.Header, c.policy.Clock.WithDefaults().Now()), err
}

// maxWords is how much is quoted of an answer that is not the API server's.
const maxWords = 200

// refusal is the API server's own. An answer in another form is that of a proxy; of a page for browsers nothing is quoted.
func refusal(code int, method string, body []byte) error {
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil || status.Status != metav1.StatusFailure {
		words := text.Cut(text.Line(redact.URLs(string(body))), maxWords)
		if strings.HasPrefix(words, "<") {
			words = ""
		}
		return apierrors.NewGenericServerResponse(code, method, schema.GroupResource{}, "", words, 0, true)
	}
	if status.Code == 0 {
		status.Code = int32(code)
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// mayPass says whether an error of the API can go away by itself.
func mayPass(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return !retry.IsLasting(err) // no answer at all
	}
	switch code := status.Status().Code; code {
	case http.StatusTooManyRequests, http.StatusRequestTimeout:
		return true
	case http.StatusNotImplemented:
		return false
	default:
		return code >= http.StatusInternalServerError
	}
}
