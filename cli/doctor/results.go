// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/cli/view"
	"github.com/scanyard/scanyard/findings/scanview"
)

// Grade is the grade of a check.
type Grade string

// Grades.
const (
	// OK means that the checked part works.
	OK Grade = "ok"
	// Warn means that not all of it works.
	Warn Grade = "warn"
	// Fail means that it does not work.
	Fail Grade = "FAIL"
	// Skip means that it could not be checked.
	Skip Grade = "skip"
)

// Result is the result of a check.
type Result struct {
	Check string
	Grade Grade
	Says  string
	// Remedy is what the user should do; empty if nothing.
	Remedy string
}

// kindsOf are the kinds that this program works with, by group and version.
type kindsOf struct {
	version schema.GroupVersion
	kinds   []string
	needed  bool
}

// resultOfKinds compares the kinds that the cluster serves with the needed ones.
func resultOfKinds(want []kindsOf, served map[schema.GroupVersion][]string) Result {
	v := Result{Check: "kinds", Grade: OK}
	count := 0
	var missing []string
	for _, w := range want {
		for _, k := range w.kinds {
			if slices.Contains(served[w.version], k) {
				count++
				continue
			}
			missing = append(missing, k)
			if w.needed {
				v.Grade = Fail
			} else if v.Grade == OK {
				v.Grade = Warn
			}
		}
	}
	v.Says = fmt.Sprintf("%d of Scanyard's kinds are served", count)
	if len(missing) > 0 {
		v.Says += "; missing: " + strings.Join(missing, ", ")
		v.Remedy = "a cluster admin installs or upgrades the CRDs: kubectl apply --server-side -f charts/scanyard/crds"
	}
	return v
}

// resultOfOperator checks the Deployments of operators.
func resultOfOperator(deployments []appsv1.Deployment) Result {
	v := Result{Check: "operator", Grade: OK}
	if len(deployments) == 0 {
		v.Grade, v.Says = Fail, "no operator is installed"
		v.Remedy = "a cluster admin installs it: helm install scanyard charts/scanyard --namespace scanyard-system"
		return v
	}
	var said []string
	for i := range deployments {
		d := &deployments[i]
		want := int32(1)
		if d.Spec.Replicas != nil {
			want = *d.Spec.Replicas
		}
		image := "?"
		if c := d.Spec.Template.Spec.Containers; len(c) > 0 {
			image = c[0].Image
		}
		said = append(said, fmt.Sprintf("%s/%s: %d of %d ready, image %s", d.Namespace, d.Name, d.Status.ReadyReplicas, want, image))
		if d.Status.ReadyReplicas == 0 {
			v.Grade = Fail
			v.Remedy = fmt.Sprintf("see why it is not ready: kubectl -n %s logs deployment/%s; its readiness names the storage it cannot reach", d.Namespace, d.Name)
		}
	}
	if len(deployments) > 1 && v.Grade == OK {
		v.Grade = Warn
		v.Remedy = "more than one operator must not work in the same namespaces"
	}
	v.Says = strings.Join(said, "; ")
	return v
}

// right is a permission that a user may need.
type right struct {
	verb, group, resource, subresource string
	// clusterWide is for kinds without a namespace.
	clusterWide bool
	// commands are the commands that need it; optional says that they do less without it.
	commands string
	optional bool
	role     string

	allowed bool
}

func (r right) String() string {
	name := r.resource
	if r.subresource != "" {
		name += "/" + r.subresource
	}
	return r.verb + " " + name
}

// resultOfRights lists the commands that will not work.
func resultOfRights(namespace string, rights []right) Result {
	v := Result{Check: "rights", Grade: OK, Says: "you may do all that a team needs in namespace " + namespace}
	var missing, commands, roles []string
	for _, r := range rights {
		if r.allowed {
			continue
		}
		missing = append(missing, r.String())
		for c := range strings.SplitSeq(r.commands, ", ") {
			if !slices.Contains(commands, c) {
				commands = append(commands, c)
			}
		}
		if r.role != "" && !slices.Contains(roles, r.role) {
			roles = append(roles, r.role)
		}
		if v.Grade != Fail {
			v.Grade = Warn
		}
		if !r.optional && r.verb == "get" && r.resource == "scans" {
			v.Grade = Fail
		}
	}
	if len(missing) == 0 {
		return v
	}
	v.Says = fmt.Sprintf("in namespace %s you may not %s; that is needed by: %s", namespace, strings.Join(missing, ", "), strings.Join(commands, ", "))
	if len(roles) > 0 {
		v.Remedy = fmt.Sprintf(
			"who administers the namespace gives you the ClusterRole: kubectl -n %s create rolebinding NAME --clusterrole=%s --user=YOU",
			namespace, strongest(roles),
		)
	}
	return v
}

func strongest(roles []string) string {
	if slices.Contains(roles, "edit") {
		return "edit"
	}
	return roles[0]
}

// checkLevels is the name of the check of resultOfLevels.
const checkLevels = "pod security"

// levelLabel is the level of the Pod Security Standards that is enforced in a namespace.
const levelLabel = "pod-security.kubernetes.io/enforce"

// policy is how far the chart's policy over Scans goes, in the terms of its value scanPolicy.mode.
type policy string

const (
	policyUnknown policy = ""
	policyNone    policy = "never"
	policyAuto    policy = "auto"
	policyAlways  policy = "always"
)

// conditionAuthor is the condition of the chart's policy that exempts authors who may create pods.
const conditionAuthor = "author-creates-no-pods"

// policyOf returns how far the policies of the chart go.
func policyOf(policies []admissionv1.ValidatingAdmissionPolicy) policy {
	found := policyNone
	for i := range policies {
		switch {
		case !strings.HasSuffix(policies[i].Name, "-scans"):
		case slices.ContainsFunc(policies[i].Spec.MatchConditions, func(c admissionv1.MatchCondition) bool { return c.Name == conditionAuthor }):
			found = policyAuto
		default:
			return policyAlways
		}
	}
	return found
}

// resultOfLevels lists the namespaces where nothing keeps pods from their node, and what restricts Scans there.
func resultOfLevels(namespaces []corev1.Namespace, holds policy) Result {
	var open []string
	for i := range namespaces {
		n := &namespaces[i]
		if _, has := n.Labels[levelLabel]; !has && !strings.HasPrefix(n.Name, "kube-") {
			open = append(open, n.Name)
		}
	}
	if len(open) == 0 {
		return Result{checkLevels, OK, "each namespace has a level of the Pod Security Standards", ""}
	}
	const shown = 10
	slices.Sort(open)
	names := strings.Join(open[:min(shown, len(open))], ", ")
	if len(open) > shown {
		names += fmt.Sprintf(" and %d more", len(open)-shown)
	}
	v := Result{checkLevels, OK, "no level of the Pod Security Standards in: " + names, ""}
	switch holds {
	case policyAuto:
		v.Says += "; Scans of those who may not create pods are held to baseline by the policy of the chart (scanPolicy.mode=auto)"
	case policyAlways:
		v.Says += "; Scans are held to the policy of the chart (scanPolicy.mode=always), where its namespaceSelector takes them"
	case policyUnknown:
		v.Grade, v.Says = Skip, v.Says+"; you may not see whether the chart's policy over Scans is installed"
	case policyNone:
		v.Grade, v.Says = Warn, v.Says+"; whoever may create Scans gets at the nodes"
		v.Remedy = "a cluster admin sets a level: kubectl label namespace NAME " + levelLabel + "=baseline; " +
			"or lets the policy of the chart hold: scanPolicy.mode=auto"
	}
	return v
}

// resultOfTypes lists the scanners that are installed.
func resultOfTypes(namespace string, local, cluster []string) Result {
	v := Result{Check: "scan types", Grade: OK}
	if len(local)+len(cluster) == 0 {
		v.Grade, v.Says = Warn, "no scanner is installed, neither in namespace "+namespace+" nor for the whole cluster"
		v.Remedy = fmt.Sprintf("install one: helm install nmap charts/nmap --namespace %s", namespace)
		return v
	}
	v.Says = fmt.Sprintf("%d in namespace %s, %d for the whole cluster", len(local), namespace, len(cluster))
	return v
}

// resultsOfScan returns how far the test scan has come: pods and images, then the storage as pods reach
// it.
func resultsOfScan(s *executionv1.Scan, timedOut bool) []Result {
	phases := scanview.Phases(s)
	scanner, parser, hooks := phases[0], phases[1], phases[2]
	step := func(check string, p scanview.Phase, good string) Result {
		switch p.Progress {
		case scanview.Done:
			return Result{check, OK, good, ""}
		case scanview.Skipped, scanview.Pending:
			return Result{check, Skip, "not reached", ""}
		case scanview.Failed, scanview.Running, scanview.Waiting:
		}
		v := Result{check, Fail, termsafe.Line(p.Message), remedyOf(s)}
		if timedOut && p.Progress == scanview.Running {
			v.Says = "it has not ended in time: " + v.Says
			v.Remedy = "give it more with --timeout; or keep it with --keep, and read its logs"
		}
		return v
	}
	out := []Result{
		step("test scan: scanner", scanner, "its image was pulled, it ran, and its pod has written to object storage"),
		step("test scan: parser", parser, "it has read from object storage, and written findings there"),
		step("test scan: hooks", hooks, hooks.Message),
	}
	if scanview.Ready(s).Reason == "" && !s.Settled() {
		out[0] = Result{
			"test scan: scanner", Fail, "no operator has taken the scan up",
			"is the operator running, and does it watch this namespace (chart value watchNamespaces)?",
		}
	}
	return out
}

func remedyOf(s *executionv1.Scan) string {
	for _, a := range view.Next(s) {
		if len(a.Command) == 0 {
			return a.Text
		}
	}
	return "read what the message names; the reasons are explained in docs/troubleshooting.md"
}
