// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

func TestFixableFlag(t *testing.T) {
	for text, want := range map[string]*bool{"": nil, "--fixable": new(true), "--fixable=1": new(true), "--fixable=false": new(false)} {
		var f imageFlags
		flags := pflag.NewFlagSet("query", pflag.ContinueOnError)
		f.bind(flags)
		if err := flags.Parse(strings.Fields(text)); err != nil {
			t.Fatal(err)
		}
		var spec reportsv1alpha1.FindingQuerySpec
		f.ask(&spec)
		if diff := cmp.Diff(want, spec.Fixable); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	var f imageFlags
	flags := pflag.NewFlagSet("query", pflag.ContinueOnError)
	f.bind(flags)
	if err := flags.Parse([]string{"--fixable=yes"}); err == nil {
		t.Error("--fixable=yes is neither true nor false")
	}
}
