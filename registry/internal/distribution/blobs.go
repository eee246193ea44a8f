// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"context"
	"io"
	"net/http"
)

// Blob gives a blob as a stream, and its size; -1: the registry does not say. The reader closes it. The error is an *Error: NotFound where
// there is no such blob. Nothing is verified here, and a stream that breaks off is not begun anew.
func (c *Client) Blob(ctx context.Context, repository, digest string) (io.ReadCloser, int64, error) {
	a, err := c.send(ctx, request{
		method: http.MethodGet, url: c.at(repository + "/blobs/" + digest), repository: repository, limit: maxErrorBody, stream: true,
	})
	switch {
	case err != nil:
		return nil, 0, err
	case a.stream == nil:
		return nil, 0, refused(a)
	}
	return a.stream, a.bytes, nil
}

// HasBlob asks whether a repository has a blob that these credentials may read.
func (c *Client) HasBlob(ctx context.Context, repository, digest string) (bool, error) {
	a, err := c.send(ctx, request{method: http.MethodHead, url: c.at(repository + "/blobs/" + digest), repository: repository, limit: maxErrorBody})
	switch {
	case err != nil:
		return false, err
	case a.status == http.StatusNotFound:
		return false, nil
	case a.status != http.StatusOK:
		return false, refused(a)
	}
	return true, nil
}
