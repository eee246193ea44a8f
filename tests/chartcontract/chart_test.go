// SPDX-License-Identifier: Apache-2.0

package chartcontract

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/tests/reportsapi"
)

const golden = "../../charts/internal/golden"

// object is what is looked at of a rendered object.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Rules []rule `json:"rules"`
	Spec  struct {
		Template struct {
			Spec struct {
				Containers []container `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type rule struct {
	Groups    []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Names     []string `json:"resourceNames"`
	Verbs     []string `json:"verbs"`
}

type container struct {
	Name      string                         `json:"name"`
	Env       []struct{ Name, Value string } `json:"env"`
	Resources struct {
		Limits map[string]string `json:"limits"`
	} `json:"resources"`
}

func (c container) env(name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// renderings returns the objects of the operator's chart by rendering: defaults, with
// S3, on AWS, with everything.
func renderings(t *testing.T) map[string][]object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(golden, "scanyard*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d renderings in %s: %v", len(files), golden, err)
	}
	all := map[string][]object{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range regexp.MustCompile(`(?m)^---.*$`).Split(string(raw), -1) {
			var o object
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			if o.Kind != "" {
				all[filepath.Base(f)] = append(all[filepath.Base(f)], o)
			}
		}
	}
	return all
}

// manager returns the operator's container.
func manager(t *testing.T, objects []object) container {
	t.Helper()
	for _, o := range objects {
		if o.Kind == "Deployment" {
			return o.Spec.Template.Spec.Containers[0]
		}
	}
	t.Fatal("there is no Deployment")
	return container{}
}

// managerRules are the operator's rights beyond its own namespace: in all of them, or in those that it watches and on
// kinds of the cluster.
func managerRules(t *testing.T, objects []object) (rules []rule) {
	t.Helper()
	for _, o := range objects {
		if strings.HasSuffix(o.Metadata.Name, "-manager-role") || o.Kind == "ClusterRole" && strings.HasSuffix(o.Metadata.Name, "-cluster-kinds-viewer-role") {
			rules = append(rules, o.Rules...)
		}
	}
	if rules == nil {
		t.Fatal("there is no role of the operator")
	}
	return rules
}

// TestDefect01OperatorMayReadClusterKinds is about a clusterWide Scan that freezes an
// operator which may not read the kinds it needs.
func TestDefect01OperatorMayReadClusterKinds(t *testing.T) {
	for name, objects := range renderings(t) {
		for _, kind := range []string{"clusterscantypes", "clusterparsedefinitions", "clusterscancompletionhooks"} {
			for _, verb := range []string{"get", "list", "watch"} {
				allowed := slices.ContainsFunc(managerRules(t, objects), func(r rule) bool {
					return slices.Contains(r.Groups, "execution.securecodebox.io") && slices.Contains(r.Resources, kind) && slices.Contains(r.Verbs, verb)
				})
				if !allowed {
					t.Errorf("%s: the operator may not %s %s", name, verb, kind)
				}
			}
		}
	}
}

// TestDefect45NoTelemetry is about an operator that reports home unless told not to.
func TestDefect45NoTelemetry(t *testing.T) {
	for name, objects := range renderings(t) {
		if got := manager(t, objects).env("TELEMETRY_ENABLED"); got != "false" {
			t.Errorf("%s: TELEMETRY_ENABLED is %q", name, got)
		}
	}
}

// TestDefect57NamesAndGroupsOfRoles is about cluster-wide roles of two releases that
// overwrite each other, and about rules for a group that does not exist.
func TestDefect57NamesAndGroupsOfRoles(t *testing.T) {
	groups := []string{
		"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "batch", "cascading.securecodebox.io", "coordination.k8s.io",
		"events.k8s.io", "execution.securecodebox.io", "rbac.authorization.k8s.io", "settings.scanyard.io", "storagemigration.k8s.io",
	}
	// These names are the contract; rbac.userRoles.prefix changes them.
	user := regexp.MustCompile(`^(?:\w+-)?(?:scan|scheduledscan|scantype|parsedefinition|scancompletionhook|cascadingrule|scansetting|findingexception)-(?:editor|viewer)-role$`)
	for name, objects := range renderings(t) {
		for _, o := range objects {
			if o.Kind == "ClusterRole" && !strings.HasPrefix(strings.TrimPrefix(o.Metadata.Name, "team-"), "demo-scanyard-") && !user.MatchString(o.Metadata.Name) {
				t.Errorf("%s: ClusterRole %s does not name its release", name, o.Metadata.Name)
			}
			for _, r := range o.Rules {
				for _, g := range r.Groups {
					if !slices.Contains(groups, g) {
						t.Errorf("%s: %s %s has a rule for group %q", name, o.Kind, o.Metadata.Name, g)
					}
				}
				if slices.Contains(r.Verbs, "*") || slices.Contains(r.Resources, "*") || slices.Contains(r.Verbs, "escalate") || slices.Contains(r.Verbs, "bind") {
					t.Errorf("%s: %s %s: %v is more than anybody needs", name, o.Kind, o.Metadata.Name, r)
				}
			}
		}
	}
}

// TestDefect58EndpointIsAService is about a storage address that no Service has, and
// about a memory limit that a cache of the whole cluster cannot keep.
func TestDefect58EndpointIsAService(t *testing.T) {
	bundled := 0
	for name, objects := range renderings(t) {
		m := manager(t, objects)
		if limit := m.Resources.Limits["memory"]; !strings.HasSuffix(limit, "Gi") && (!strings.HasSuffix(limit, "Mi") || len(limit) < len("100Mi")) {
			t.Errorf("%s: the operator's memory is limited to %q", name, limit)
		}
		service, rest, found := strings.Cut(m.env("S3_ENDPOINT"), ".")
		if !found || !strings.Contains(rest, ".svc.") {
			continue // storage of the user's own
		}
		bundled++
		namespace, _, _ := strings.Cut(rest, ".")
		if !slices.ContainsFunc(objects, func(o object) bool {
			return o.Kind == "Service" && o.Metadata.Name == service && o.Metadata.Namespace == namespace
		}) {
			t.Errorf("%s: S3_ENDPOINT names Service %s/%s, which the chart does not make", name, namespace, service)
		}
	}
	if bundled < 2 {
		t.Errorf("%d renderings with the bundled store, want at least two", bundled)
	}
}

// TestSecretsAreOutOfReach: in every namespace the operator has no right on Secrets.
func TestSecretsAreOutOfReach(t *testing.T) {
	for name, objects := range renderings(t) {
		for _, r := range managerRules(t, objects) {
			if slices.Contains(r.Resources, "secrets") {
				t.Errorf("%s: the operator may %v Secrets in every namespace", name, r.Verbs)
			}
		}
	}
}

// TestReportsAreMeasuredAsInstalled: benchmarks and tests bound the memory of the reports API server as the chart does.
func TestReportsAreMeasuredAsInstalled(t *testing.T) {
	env := one[appsv1.Deployment](t, "reports", "Deployment").Spec.Template.Spec.Containers[0].Env
	if !slices.Contains(env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: reportsapi.GoMemory}) {
		t.Errorf("GOMEMLIMIT must be %s as in tests/reportsapi: %v", reportsapi.GoMemory, env)
	}
}
