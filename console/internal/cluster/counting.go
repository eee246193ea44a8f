// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"net/http"
)

type countingKey struct{}

// Counting has a function called with the status of each answer of the API server to requests that go out with the context:
// also those that the client tries again. The function must be safe for concurrent use.
func Counting(ctx context.Context, count func(code int)) context.Context {
	return context.WithValue(ctx, countingKey{}, count)
}

// counting tells of answers to whoever counts them.
type counting struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if count, ok := r.Context().Value(countingKey{}).(func(int)); ok && response != nil {
		count(response.StatusCode)
	}
	return response, err //nolint:wrapcheck // a transport hands on what it gets
}

// WrappedRoundTripper lets client-go find the transport below.
func (c counting) WrappedRoundTripper() http.RoundTripper { return c.next }
