// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestReports holds what is said of who answers for the groups of reports.
// "AppliedOver" and "Undone" are row 45 of the fault list of the reports API.
func TestReports(t *testing.T) {
	own := `{"metadata":{"name":"v1alpha1.reports.scanyard.io"},"spec":{"service":{"name":"reports"}},"status":{"conditions":[{"type":"Available","status":"True"}]}}`
	group := func(labels, annotations, spec, available string) string {
		return `{"metadata":{"name":"v1alpha2.wgpolicyk8s.io","labels":` + labels + `,"annotations":` + annotations + `},"spec":` + spec +
			`,"status":{"conditions":[{"type":"Available","status":"` + available + `","message":"no endpoints"}]}}`
	}
	const label, managed, remote = `{"kube-aggregator.kubernetes.io/automanaged":"true"}`, `{"reports.scanyard.io/managed":"true"}`, `{"service":{"name":"reports"}}`
	for name, c := range map[string]struct {
		services []string
		grade    Grade
		says     string
	}{
		"Alone":       {[]string{own}, OK, "the reports API server responds"},
		"Moved":       {[]string{own, group("{}", managed, remote, "True")}, OK, "the reports API server responds"},
		"WithCRDs":    {[]string{own, group(label, "{}", "{}", "True")}, OK, `v1alpha2.wgpolicyk8s.io is with its CRDs, "scanyard reports migrate" moves it`},
		"AppliedOver": {[]string{own, group(label, "{}", remote, "True")}, Warn, "has kube-apiserver undo that"},
		"Undone":      {[]string{own, group(label, managed, "{}", "True")}, Warn, "was applied over the one of a CRD"},
		"Away":        {[]string{own, group("{}", managed, remote, "False")}, Fail, "does not respond: no endpoints"},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []seenService
			for _, text := range c.services {
				u := &unstructured.Unstructured{}
				if err := u.UnmarshalJSON([]byte(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService",` + text[1:])); err != nil {
					t.Fatal(err)
				}
				seen = append(seen, serviceOf(u))
			}
			v := resultOfReports(seen)
			if v.Grade != c.grade || !strings.Contains(v.Says, c.says) || (v.Remedy == "") != (c.grade == OK) {
				t.Errorf("got %+v, want %s %q", v, c.grade, c.says)
			}
		})
	}
}
