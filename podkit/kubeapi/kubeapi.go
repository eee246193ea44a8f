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

// ErrAway wraps the last error of an API server that did not respond within the policy's time.
var ErrAway = errors.New("the API server cannot be used")

const (
	requestTimeout = 30 * time.Second
	maxAnswer      = 64 << 20 // far above a page of the largest objects
	firstPause     = 500 * time.Millisecond
	longestPause   = 15 * time.Second
)

// DefaultPatience is how long requests to an API server that is away are retried.
const DefaultPatience = 5 * time.Minute

// Policy returns the policy of retries; clock and notice may be added.
func Policy(patience time.Duration) retry.Policy {
	return retry.Policy{First: firstPause, Longest: longestPause, Budget: patience}
}

// Config finds the API server: the one in the file of KUBECONFIG, else the one of the pod.
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

// Client sends requests to the API server.
type Client struct {
	http   *http.Client
	base   *url.URL
	policy retry.Policy
}

// New returns a Client. Its name is the manager of the fields that it writes.
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

// Path is the path of an object on the API server, segment by segment. Names come from annotations and statuses that other
// clients may write, so no segment can lead elsewhere: Do refuses segments with a slash and others that a server would interpret.
type Path []string

// Join is a path below this one.
func (p Path) Join(segments ...string) Path { return slices.Concat(p, segments) }

// segment matches names of Kubernetes and of its groups.
var segment = regexp.MustCompile(`^[A-Za-z0-9._:~-]+$`)

// ErrPath says that a segment of a Path is not a valid name.
var ErrPath = errors.New("is not a name that can stand in a path of the API")

// check refuses an invalid path.
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

// Request is a request about an object or a list.
type Request struct {
	// Method is the method; empty means GET.
	Method string
	// Query is the query of the request.
	Query url.Values
	// Accept is a media type of the response other than the whole object as JSON.
	Accept string
	// ContentType is the type of Body; empty means application/json.
	ContentType string
	// Body is the body of the request; nil sends none.
	Body []byte
	// Again reports whether a refusal may be retried that is final otherwise, after so many attempts. Optional.
	Again func(err error, attempts int) bool
}

// Do sends a request, which must be safe to repeat, until the response is one that a retry would not change.
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

// once sends the request once; asked is how long the server asked to wait.
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

// maxWords is how much of a response is quoted that is not the API server's.
const maxWords = 200

// refusal returns the API server's error. A response in another form is from a proxy; a page for browsers is not quoted.
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

// mayPass reports whether a retry may succeed after an error of the API.
func mayPass(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return !retry.IsLasting(err) // no response at all
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
