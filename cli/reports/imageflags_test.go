// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

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

// What the server refuses is told by the name of the flag.
func TestExplainPackage(t *testing.T) {
	f := imageFlags{pkg: "lodash@latest"}
	mistake := field.Invalid(field.NewPath("spec", "package", "versionRange"), "latest", "must be a version")
	err := f.explain(apierrors.NewInvalid(schema.GroupKind{Kind: "FindingQuery"}, "query", field.ErrorList{mistake}))
	if want := `--package lodash@latest: Invalid value: "latest": must be a version`; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	for _, other := range []error{errors.New("unreachable"), apierrors.NewNotFound(schema.GroupResource{}, "x")} {
		if got := f.explain(other); !errors.Is(got, other) {
			t.Errorf("%v became %v", other, got)
		}
	}
}
