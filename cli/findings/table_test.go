// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/report"
)

func TestLocationOf(t *testing.T) {
	file := finding.Object{{Key: "file", Value: "config.env"}}
	cases := map[string]struct {
		entry report.Entry
		want  string
	}{
		"Location": {report.Entry{Location: "tcp://10.0.0.1:22", Attributes: file}, "tcp://10.0.0.1:22"},
		"File":     {report.Entry{Attributes: file}, "config.env"},
		"Nowhere":  {report.Entry{}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := locationOf(&tc.entry); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
