// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"strings"
	"testing"

	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
)

func TestConformance(t *testing.T) {
	r := receivertest.Start(t, receivertest.Options{})
	out, errs, code := run(t, "", "", "conformance", "--target=grpc://"+r.Address+",insecure=true")
	if code != 0 || errs != "" || strings.Contains(out, "not ok") || !strings.Contains(out, "\nok 60 - ") {
		t.Errorf("code %d, %s\n%s", code, errs, out)
	}
	// Nobody listens there any more: each case says so.
	r.Server.Stop()
	out, errs, code = run(t, "", "", "conformance", "--timeout=5s", "--target=grpc://"+r.Address+",insecure=true")
	if code != exitFailed || !strings.Contains(errs, "60 of 60 cases failed") || strings.Count(out, "\nnot ok ") != 60 {
		t.Errorf("code %d, %s\n%s", code, errs, out)
	}
	for want, args := range map[string][]string{
		"--target: must be given":          {"conformance"},
		"--target: https://a is no":        {"conformance", "--target=https://a"},
		"would send findings in plain":     {"conformance", "--target=grpc://a:1"},
		"--timeout: must be longer":        {"conformance", "--target=grpcs://a:1", "--timeout=0s"},
		`the argument "x" is one too many`: {"conformance", "x"},
	} {
		if _, errs, code := run(t, "", "", args...); code != exitWrong || !strings.Contains(errs, want) {
			t.Errorf("%v: code %d, %s", args, code, errs)
		}
	}
}
