// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/consoletest"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/exception/exceptiontest"
)

// storedAs is an exception as the API server has it.
func storedAs(e *exception.Exception) client.Object {
	if e.Namespace == "" {
		x := &settingsv1alpha2.ClusterFindingException{}
		x.Name, x.Spec.ExceptionSpec, x.Spec.Scope = e.Name, e.Spec, &e.Scope
		return x
	}
	x := &settingsv1alpha2.FindingException{}
	x.Namespace, x.Name, x.Spec.ExceptionSpec = e.Namespace, e.Name, e.Spec
	return x
}

// TestCasesOfExceptions runs the cases of the specification through the list of findings and the page of one.
func TestCasesOfExceptions(t *testing.T) {
	const namespace = "team-blue"
	exceptiontest.Each(t, "console", namespace, consoletest.Noon, func(t *testing.T, c *exceptiontest.Case) {
		objects := []client.Object{consoletest.Namespace(namespace), consoletest.Scan(namespace, "shop", "trivy", time.Hour, consoletest.Found(1, 0, 0, 0))}
		for i := range c.List {
			objects = append(objects, storedAs(&c.List[i]))
		}
		w := consoletest.New(t, objects...)
		var finding map[string]any
		if err := json.Unmarshal([]byte(c.Finding), &finding); err != nil {
			t.Fatal(err)
		}
		w.Store(scanIn(t, w, namespace, "shop"), finding)
		w.Enter()
		const list = "/findings?ns=" + namespace
		shown := func(status string) bool {
			return strings.Contains(w.Get(list+"&status="+status).Body, ">lodash 4.17.20</a>")
		}
		if !shown("all") || shown("excepted") == shown("") {
			t.Error("the finding must be in the list of all, and either open or excepted")
		}
		c.Counts(t, shown("excepted"))
		key, ok := finding["fingerprint"].(string)
		if !ok {
			key = "1"
		}
		_, by, _ := strings.Cut(w.Get("/findings/"+key+"?scan=shop&ns="+namespace).Body, "</b> by <a href=")
		_, by, _ = strings.Cut(by, ">")
		by, _, _ = strings.Cut(by, "</a>")
		c.Marked(t, strings.ReplaceAll(by, " ", "/"))
	})
}
