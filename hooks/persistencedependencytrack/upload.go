// SPDX-License-Identifier: Apache-2.0

package persistencedependencytrack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

func (h *handler) options() delivery.Options {
	return delivery.Options{Remote: "Dependency-Track", Secrets: []string{h.apiKey}}
}

// upload sends the SBOM and returns the token by which its processing is asked for, if there is one.
func (h *handler) upload(ctx context.Context, s *sdk.Session, p *project) (token string, err error) {
	var contentType string
	body, err := sdk.Stage(ctx, func(ctx context.Context, w io.Writer) (err error) {
		contentType, err = h.write(ctx, s, p, w)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("make the request: %w", err)
	}
	answer, err := s.Sender(h.options()).Do(ctx, &delivery.Request{
		URL: h.address + "/api/v1/bom", Header: http.Header{"Content-Type": {contentType}, "X-Api-Key": {h.apiKey}}, Body: body,
	})
	if isDenied(err) {
		return "", fmt.Errorf("%w; the team of the API key needs the permission BOM_UPLOAD and, for projects that are not there yet, PROJECT_CREATION_UPLOAD", err)
	}
	if err != nil {
		return "", err
	}
	var got struct {
		Token string `json:"token"`
	}
	if err := answer.JSON(&got); err != nil && h.wait > 0 {
		return "", fmt.Errorf("read the response of Dependency-Track: %w", err)
	}
	return got.Token, nil
}

// isDenied says that the API key may not do it.
func isDenied(err error) bool {
	status, ok := errors.AsType[*delivery.StatusError](err)
	return ok && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden)
}

// write makes the body. It is the same each time, so the boundary is made of what is: nobody else can put it into an
// SBOM, as there are no line breaks in that.
func (h *handler) write(ctx context.Context, s *sdk.Session, p *project, w io.Writer) (contentType string, err error) {
	form := multipart.NewWriter(w)
	if err := form.SetBoundary(s.Key("boundary")); err != nil {
		return "", fmt.Errorf("set boundary: %w", err)
	}
	fields := append([][2]string{
		{"autoCreate", strconv.FormatBool(h.autoCreate)}, {"projectName", p.name}, {"projectVersion", p.version},
	}, p.more...)
	for _, f := range fields {
		if err := form.WriteField(f[0], f[1]); err != nil {
			return "", err
		}
	}
	part, err := form.CreateFormField("bom")
	if err != nil {
		return "", err
	}
	raw, err := s.RawResult(ctx)
	if err != nil {
		return "", err
	}
	if err := errors.Join(compact(part, raw), raw.Close()); err != nil {
		return "", err
	}
	return form.FormDataContentType(), form.Close()
}

// errProcessing says that Dependency-Track has not come to an end yet.
var errProcessing = errors.New("the SBOM is still being processed")

// await asks until the SBOM is processed. Dependency-Track does not say how that went.
func (h *handler) await(ctx context.Context, s *sdk.Session, token string, wait time.Duration) error {
	if token == "" {
		return errors.New("the response of Dependency-Track has no token to ask with whether the SBOM is processed")
	}
	o := h.options()
	o.Attempts, o.Budget, o.FirstPause, o.LongestPause = int(wait/time.Second)+2, wait, time.Second, 10*time.Second
	o.Notef = func(string, ...any) {} // waiting is not a fault
	client := s.Sender(o)
	s.Notef("waiting for its processing")
	// Before version 4.11 the question was another one.
	for _, path := range []string{"/api/v1/event/token/", "/api/v1/bom/token/"} {
		answer, err := client.Do(ctx, &delivery.Request{
			Method: http.MethodGet, URL: h.address + path + url.PathEscape(token), Header: http.Header{"X-Api-Key": {h.apiKey}},
			Accept: []int{http.StatusNotFound}, Check: isProcessed,
		})
		if err != nil {
			return fmt.Errorf("wait for the processing: %w", err)
		}
		if answer.Status != http.StatusNotFound {
			return nil
		}
	}
	return errors.New("wait for the processing: Dependency-Track knows no such question (404)")
}

func isProcessed(a *delivery.Answer) error {
	if a.Status == http.StatusNotFound {
		return nil
	}
	var got struct {
		Processing *bool `json:"processing"`
	}
	if err := a.JSON(&got); err != nil {
		return err
	}
	switch {
	case got.Processing == nil:
		return errors.New("the response does not say whether the SBOM is processed")
	case *got.Processing:
		return delivery.TryAgain(errProcessing, 0)
	}
	return nil
}
