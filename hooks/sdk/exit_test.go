// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/transfer"
)

func TestExitCode(t *testing.T) {
	status := func(code int) error { return &delivery.StatusError{Remote: "it", Status: code} }
	expired := &transfer.StatusError{Code: http.StatusForbidden, S3Code: "AccessDenied", S3Message: "Request has expired"}
	cases := map[string]struct {
		reason string
		err    error
		want   int
	}{
		"Unknown":        {"an unknown error may pass", io.ErrUnexpectedEOF, 1},
		"Setting":        {"the next try has the same settings", fmt.Errorf("channel: %w", process.Misconfigured(io.EOF)), exitcode.Configuration},
		"ReadOnly":       {"the next try has no more URLs", fmt.Errorf("write: %w", sdk.ErrReadOnly), exitcode.Configuration},
		"Unauthorized":   {"the next try has the same credentials", fmt.Errorf("send: %w", status(http.StatusUnauthorized)), exitcode.Refused},
		"Forbidden":      {"the next try has the same credentials", status(http.StatusForbidden), exitcode.Refused},
		"ForbiddenAWay":  {"some call it forbidden to ask too often", delivery.TryAgain(status(http.StatusForbidden), 0), 1},
		"NotFound":       {"it may be made meanwhile", status(http.StatusNotFound), 1},
		"Busy":           {"it passes", status(http.StatusServiceUnavailable), 1},
		"TooMany":        {"it passes", status(http.StatusTooManyRequests), 1},
		"Expired":        {"the next try has the same URL", fmt.Errorf("get findings: %w", expired), exitcode.Refused},
		"StoreRefuses":   {"whoever runs the store may mend it", &transfer.StatusError{Code: http.StatusForbidden, S3Code: "AccessDenied"}, 1},
		"SomeFindings":   {"the next try may bring those that were busy", &delivery.PartialError{Remote: "it", Refused: 1, Total: 2}, 1},
		"AllAreFinal":    {"no channel can work", errors.Join(status(http.StatusForbidden), process.Misconfigured(io.EOF)), exitcode.Refused},
		"OneMayPass":     {"one channel may work yet", errors.Join(process.Misconfigured(io.EOF), status(http.StatusBadGateway)), 1},
		"OneIsNotKnown":  {"one channel may work yet", errors.Join(status(http.StatusForbidden), io.EOF), 1},
		"OneWrapped":     {"a list of one is that one", fmt.Errorf("all: %w", errors.Join(status(http.StatusForbidden), nil)), exitcode.Refused},
		"NothingIsWrong": {"no error is none of settings", process.Misconfigured(nil), 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := process.ExitCode(tc.err); got != tc.want {
				t.Errorf("%s: exit code %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}
