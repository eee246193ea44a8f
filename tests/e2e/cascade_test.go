// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/ledger"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/target"
)

// cascadingHook is the name of the hook, its chart and its release in a namespace.
const cascadingHook = "cascading-scans"

// clusterCascading is the hook's release for Scans of resourceMode clusterWide. It runs in
// its own namespace.
const (
	clusterCascading          = "e2e-cluster-cascading"
	clusterCascadingNamespace = "e2e-cascading"
)

var clusterCascadingRelease struct {
	sync.Once
	err error
}

// clusterCascades installs the charts for cascades of clusterWide Scans, once.
func clusterCascades(t *testing.T) {
	t.Helper()
	clusterCharts(t)
	clusterCascadingRelease.Do(func() {
		clusterCascadingRelease.err = w.helm.Install(t.Context(), install.Release{
			Chart: cascadingHook, Name: clusterCascading, Namespace: clusterCascadingNamespace,
			Values: map[string]any{"clusterWide": true, "executionNamespace": clusterCascadingNamespace, "fullnameOverride": clusterCascading},
		})
	})
	if clusterCascadingRelease.err != nil {
		t.Fatal(clusterCascadingRelease.err)
	}
}

// wideCascade makes a clusterWide Scan that uses the cluster's cascading hook and no
// other, as do all that it starts.
func wideCascade(s *executionv1.Scan) *executionv1.Scan {
	mode, yes := executionv1.ClusterWide, true
	s.Spec.ResourceMode = &mode
	onlyHooks(s, clusterCascading).Spec.Cascades.InheritHookSelector = &yes
	return s
}

// ruleSet selects the rules of one test.
const ruleSet = "e2e/rules"

// rules makes cascading rules in a namespace.
func rules(t *testing.T, ns string, specs map[string]cascadingv1.CascadingRuleSpec) {
	t.Helper()
	for name, spec := range specs {
		create(t, &cascadingv1.CascadingRule{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{ruleSet: ns}}, Spec: spec})
	}
}

// clusterRules makes cascading rules for the whole cluster. Their names begin with that
// of the namespace of the test.
func clusterRules(t *testing.T, ns string, specs map[string]cascadingv1.CascadingRuleSpec) {
	t.Helper()
	for name, spec := range specs {
		createGlobal(t, &cascadingv1.ClusterCascadingRule{ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + name, Labels: map[string]string{ruleSet: ns}}, Spec: spec})
	}
}

// cascadingOn is a Scan whose findings go through the rules of its namespace's test.
func cascadingOn(s *executionv1.Scan, edit ...func(*executionv1.CascadeSpec)) *executionv1.Scan {
	s.Spec.Cascades = &executionv1.CascadeSpec{MatchLabels: map[string]string{ruleSet: s.Namespace}}
	for _, f := range edit {
		f(s.Spec.Cascades)
	}
	return s
}

// starts is a rule: findings that match start a Scan.
func starts(match cascadingv1.MatchesRule, scanType string, parameters ...string) cascadingv1.CascadingRuleSpec {
	return cascadingv1.CascadingRuleSpec{
		Matches:  cascadingv1.Matches{AnyOf: []cascadingv1.MatchesRule{match}},
		ScanSpec: executionv1.ScanSpec{ScanType: scanType, Parameters: parameters},
	}
}

func openPort(port int) cascadingv1.MatchesRule {
	return cascadingv1.MatchesRule{Category: "Open Port", Attributes: map[string]intstr.IntOrString{"port": intstr.FromInt32(int32(port)), "state": intstr.FromString("open")}}
}

// tree is a Scan that has ended well, with the Scans that it has started.
type tree struct {
	*executionv1.Scan
	children []*tree
}

// grown waits for the good end of a Scan and of everything below it. A Scan has all its
// children when its hooks have run.
func grown(t *testing.T, s *executionv1.Scan) *tree {
	t.Helper()
	return branches(t, wantDone(t, s))
}

func branches(t *testing.T, s *executionv1.Scan) *tree {
	t.Helper()
	var list executionv1.ScanList
	if err := w.admin.List(t.Context(), &list, client.InNamespace(s.Namespace)); err != nil {
		t.Fatal(err)
	}
	out := &tree{Scan: s}
	for i := range list.Items {
		if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.UID == s.UID {
			out.children = append(out.children, grown(t, &list.Items[i]))
		}
	}
	return out
}

// all lists the Scans of a tree, the first one first.
func (r *tree) all() []*executionv1.Scan {
	out := []*executionv1.Scan{r.Scan}
	for _, c := range r.children {
		out = append(out, c.all()...)
	}
	return out
}

const cascadingDomain = "cascading.securecodebox.io/"

// outline describes the Scans below the first, sorted: the rules that led to each, and
// what it scans.
func (r *tree) outline() []string {
	var out []string
	for _, s := range r.all()[1:] {
		chain := strings.ReplaceAll(s.Annotations[cascadingDomain+"chain"], s.Namespace+"-", "")
		out = append(out, fmt.Sprintf("%s: %s %s", chain, s.Spec.ScanType, strings.Join(s.Spec.Parameters, " ")))
	}
	slices.Sort(out)
	return out
}

func wantOutline(t *testing.T, r *tree, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, r.outline()); diff != "" {
		t.Errorf("Scans below %s (-want +got):\n%s", r.Name, diff)
	}
}

// wantFamily holds what ties children to the Scan that has started them.
func (r *tree) wantFamily(t *testing.T) {
	t.Helper()
	ids := map[string]bool{}
	for _, f := range findings(t, r.Scan) {
		ids[f.ID.String()] = true
	}
	for _, c := range r.children {
		want := []metav1.OwnerReference{*metav1.NewControllerRef(r.Scan, executionv1.SchemeGroupVersion.WithKind("Scan"))}
		if diff := cmp.Diff(want, c.OwnerReferences); diff != "" {
			t.Errorf("owners of %s (-want +got):\n%s", c.Name, diff)
		}
		if c.Annotations["securecodebox.io/hook"] != cascadingHook || c.Annotations[cascadingDomain+"parent-scan"] != r.Name || !ids[c.Annotations[cascadingDomain+"matched-finding"]] {
			t.Errorf("annotations of %s are %v, want those of a child of %s, which has the findings %v", c.Name, c.Annotations, r.Name, slices.Collect(maps.Keys(ids)))
		}
		if c.Mode() != r.Mode() {
			t.Errorf("resourceMode of %s is %s, that of its parent %s", c.Name, c.Mode(), r.Mode())
		}
		c.wantFamily(t)
	}
}

// TestCascade: nmap finds a web server, whatweb looks at it, nmap finds a login on its
// host, ncrack finds the password.
func TestCascade(t *testing.T) {
	t.Parallel()
	const words = "/ncrack"
	list := []string{"-U", words + "/users.txt", "-P", words + "/passwords.txt"}
	ownRules := func(web *target.Web, ftp *target.FTP) map[string]cascadingv1.CascadingRuleSpec {
		return map[string]cascadingv1.CascadingRuleSpec{
			"site":   starts(openPort(web.Port), "whatweb", "http://{{$.hostOrIP}}:{{attributes.port}}"),
			"logins": starts(cascadingv1.MatchesRule{Category: "WEB APPLICATION"}, "nmap", "-sV", "-p", strconv.Itoa(ftp.Port), "{{$.hostOrIP}}"),
		}
	}
	root := func(t *testing.T, ns string, web *target.Web) *executionv1.Scan {
		yes := true
		s := cascadingOn(scans.New(ns, "nmap-first", "nmap", "-p", strconv.Itoa(web.Port), web.Host), func(c *executionv1.CascadeSpec) { c.InheritVolumes = &yes })
		files(t, s, words, map[string]string{"users.txt": "root\n" + ftpUser + "\n", "passwords.txt": "123456\n" + ftpPassword + "\n"})
		return s
	}
	check := func(t *testing.T, first *executionv1.Scan, web *target.Web, ftp *target.FTP, last, lastParameters string) {
		create(t, first)
		r := grown(t, first)
		wantOutline(t, r,
			fmt.Sprintf("site: whatweb http://localhost:%d", web.Port),
			fmt.Sprintf("site,logins: nmap -sV -p %d %s", ftp.Port, web.Host),
			fmt.Sprintf("site,logins,%s: ncrack %s -p ftp:%d localhost", last, lastParameters, ftp.Port))
		r.wantFamily(t)
		if t.Failed() {
			return
		}
		all := r.all()
		wantLines(t, findings(t, all[1]), []string{fmt.Sprintf("WEB APPLICATION | http://localhost:%d | nginx/1.29.0", web.Port)}, "category", "location", "HTTPServer")
		wantLines(t, keep(findings(t, all[2]), "Open Port"), []string{fmt.Sprintf("%d | ftp | vsftpd", ftp.Port)}, "port", "service", "serviceProduct")
		wantLines(t, findings(t, all[3]), []string{fmt.Sprintf("Discovered Credentials | HIGH | %s | %s", ftpUser, ftpPassword)}, "category", "severity", "username", "password")
		wantGoneTogether(t, all)
	}
	t.Run("Namespaced", func(t *testing.T) {
		t.Parallel()
		web, ftp, ns := webSite(t), ftpServer(t), namespace(t)
		for _, name := range []string{"nmap", "whatweb", cascadingHook} {
			chart(t, name, ns, nil)
		}
		// The last rule is the chart's own.
		chart(t, "ncrack", ns, map[string]any{"cascadingRules": map[string]any{"enabled": true}})
		rules(t, ns, ownRules(web, ftp))
		first := root(t, ns, web)
		first.Spec.Cascades.MatchLabels = nil
		check(t, first, web, ftp, "ncrack-ftp", strings.Join(append([]string{"-v", "-d10"}, list...), " "))
	})
	t.Run("ClusterWide", func(t *testing.T) {
		t.Parallel()
		clusterCascades(t)
		web, ftp, ns := webSite(t), ftpServer(t), namespace(t)
		own := ownRules(web, ftp)
		own["passwords"] = starts(cascadingv1.MatchesRule{Category: "Open Port", Attributes: map[string]intstr.IntOrString{"service": intstr.FromString("ftp")}},
			"ncrack", append(slices.Clone(list), "-p", "ftp:{{attributes.port}}", "{{$.hostOrIP}}")...)
		clusterRules(t, ns, own)
		first := wideCascade(root(t, ns, web))
		check(t, first, web, ftp, "passwords", strings.Join(list, " "))
	})
}

// wantGoneTogether deletes the first Scan of a cascade: all others go, and what they have
// stored.
func wantGoneTogether(t *testing.T, all []*executionv1.Scan) {
	t.Helper()
	if err := w.admin.Delete(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		gone(t, s)
		if keys := stored(t, s); len(keys) > 0 {
			t.Errorf("Scan %s is gone, and storage still has %v", s.Name, keys)
		}
	}
	// The cluster-wide hook's Jobs are in another namespace, where no owner takes them along.
	eventually(t, "the Jobs to be gone", func(context.Context) (bool, error) {
		for _, s := range all {
			if len(jobsOf(s)) > 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// TestCascadingRulesAreNeverMixed: a Scan sees the rules of its own kind only.
func TestCascadingRulesAreNeverMixed(t *testing.T) {
	t.Parallel()
	clusterCascades(t)
	web, ns := webSite(t), namespace(t)
	chart(t, "nmap", ns, nil)
	chart(t, cascadingHook, ns, nil)
	port := strconv.Itoa(web.Port)
	rules(t, ns, map[string]cascadingv1.CascadingRuleSpec{"local": starts(openPort(web.Port), "nmap", "-sT", "-p", port, web.Host)})
	clusterRules(t, ns, map[string]cascadingv1.CascadingRuleSpec{"wide": starts(openPort(web.Port), "nmap", "-sT", "-p", port, web.Host)})
	local := cascadingOn(scans.New(ns, "nmap-local", "nmap", "-p", port, web.Host))
	wide := wideCascade(cascadingOn(scans.New(ns, "nmap-wide", "nmap", "-p", port, web.Host)))
	create(t, local, wide)
	wantOutline(t, grown(t, local), "local: nmap -sT -p "+port+" "+web.Host)
	wantOutline(t, grown(t, wide), "wide: nmap -sT -p "+port+" "+web.Host)
}

// TestCascadeBrakes lets the same cascade go without brakes and with each of them. Two
// findings start equal Scans, from which one more comes, and one more.
func TestCascadeBrakes(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	chart(t, "nmap", ns, nil)
	chart(t, cascadingHook, ns, nil)
	var port [4]int
	var host string
	for i := range port {
		web := webSite(t)
		port[i], host = web.Port, web.Host
	}
	nmap := func(match cascadingv1.MatchesRule, to int) cascadingv1.CascadingRuleSpec {
		return starts(match, "nmap", "-p", strconv.Itoa(to), host)
	}
	first := nmap(openPort(port[0]), port[2])
	first.Matches.AnyOf = append(first.Matches.AnyOf, openPort(port[1]))
	rules(t, ns, map[string]cascadingv1.CascadingRuleSpec{"first": first, "second": nmap(openPort(port[2]), port[3]), "third": nmap(openPort(port[3]), port[2])})
	line := func(chain string, to int) string { return fmt.Sprintf("%s: nmap -p %d %s", chain, to, host) }
	one, two, three := line("first", port[2]), line("first,second", port[3]), line("first,second,third", port[2])
	yes := true
	cases := map[string]struct {
		brake func(*executionv1.CascadeSpec)
		want  []string
		says  string
	}{
		"Off":         {func(*executionv1.CascadeSpec) {}, []string{one, one, two, two, three, three}, "3 findings, 3 rules, 2 Scans started"},
		"Deduplicate": {func(c *executionv1.CascadeSpec) { c.Deduplicate = &yes }, []string{one, two, three}, "rule first: the chain has equal Scans already (1 equal ones were left out)"},
		"MaxDepth1":   {func(c *executionv1.CascadeSpec) { c.MaxDepth = new(int32(1)) }, []string{one, one}, "2 Scans started"},
		"MaxDepth2":   {func(c *executionv1.CascadeSpec) { c.MaxDepth = new(int32(2)) }, []string{one, one, two, two}, "2 Scans started"},
		"MaxScans1":   {func(c *executionv1.CascadeSpec) { c.MaxScans = new(int32(1)) }, []string{one}, "rule first: maxScans is 1 and the chain has as many (1 were left out)"},
		"Together": {func(c *executionv1.CascadeSpec) {
			c.Deduplicate, c.MaxDepth, c.MaxScans = &yes, new(int32(2)), new(int32(5))
		}, []string{one, two}, "1 equal ones were left out"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cascadingOn(scans.New(ns, "nmap-"+strings.ToLower(name), "nmap", "-n", "-p", fmt.Sprintf("%d,%d", port[0], port[1]), host), tc.brake)
			create(t, s)
			r := grown(t, s)
			wantOutline(t, r, tc.want...)
			if log := hookLog(t, r.Scan, cascadingHook); !strings.Contains(log, tc.says) {
				t.Errorf("the hook's log does not say %q:\n%s", tc.says, log)
			}
		})
	}
}

// hookLog returns what the pods of a hook have logged.
func hookLog(t *testing.T, s *executionv1.Scan, hook string) string {
	t.Helper()
	job := jobsOf(s)[hook]
	if job == nil {
		t.Fatalf("Scan %s has no Job of hook %s", s.Name, hook)
	}
	return podLogs(t, job.Namespace, client.MatchingLabels{"job-name": job.Name})
}

// podLogs returns what pods have logged, one after another.
func podLogs(t *testing.T, ns string, which ...client.ListOption) string {
	t.Helper()
	var pods corev1.PodList
	if err := w.admin.List(t.Context(), &pods, append(which, client.InNamespace(ns))...); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i := range pods.Items {
		for _, c := range pods.Items[i].Spec.Containers {
			b, err := w.kube.CoreV1().Pods(ns).GetLogs(pods.Items[i].Name, &corev1.PodLogOptions{Container: c.Name}).DoRaw(t.Context())
			if err != nil {
				t.Fatalf("read the log of %s: %v", pods.Items[i].Name, err)
			}
			out.Write(b)
		}
	}
	return out.String()
}

// TestCascadeScope: findings out of scope start nothing, and children stay in it.
func TestCascadeScope(t *testing.T) {
	t.Parallel()
	web, ns := webSite(t), namespace(t)
	chart(t, "nmap", ns, nil)
	chart(t, cascadingHook, ns, nil)
	port := strconv.Itoa(web.Port)
	rules(t, ns, map[string]cascadingv1.CascadingRuleSpec{"hosts": starts(cascadingv1.MatchesRule{Category: "Host"}, "nmap", "-n", "-p", port, "{{$.hostOrIP}}")})
	const network = "scope.cascading.securecodebox.io/network"
	s := cascadingOn(scans.New(ns, "nmap-hosts", "nmap", "-n", "-p", port, web.Host, "127.0.0.2"), func(c *executionv1.CascadeSpec) {
		c.ScopeLimiter = &executionv1.ScopeLimiter{AllOf: []executionv1.ScopeLimiterRequirement{{Key: network, Operator: "InCIDR", Values: []string{"{{#asList}}attributes.ip_addresses{{/asList}}"}}}}
	})
	s.Annotations = map[string]string{network: web.Host + "/32"}
	create(t, s)
	r := grown(t, s)
	if hosts := keep(findings(t, r.Scan), "Host"); len(hosts) != 2 {
		t.Fatalf("nmap has found the hosts %v, want 2", lines(hosts, "location"))
	}
	wantOutline(t, r, "hosts: nmap -n -p "+port+" "+web.Host)
	for _, c := range r.children {
		if got := c.Annotations[network]; got != web.Host+"/32" {
			t.Errorf("the scope of %s is %q, want that of its parent", c.Name, got)
		}
		if diff := cmp.Diff(r.Spec.Cascades.ScopeLimiter, c.Spec.Cascades.ScopeLimiter); diff != "" {
			t.Errorf("the scopeLimiter of %s (-parent's +its):\n%s", c.Name, diff)
		}
	}
}

// TestCascadeRuleThatFails: rules with mistakes fail the hook, which names them; the
// others have started what they start, once, though the hook was tried again.
func TestCascadeRuleThatFails(t *testing.T) {
	t.Parallel()
	web, ns := webSite(t), namespace(t)
	chart(t, "nmap", ns, nil)
	chart(t, cascadingHook, ns, nil)
	port := strconv.Itoa(web.Port)
	refused := starts(openPort(web.Port), "nmap", "-p", port, web.Host)
	refused.ScanLabels = map[string]string{"at": "{{{location}}}"} // tcp://… is no value of a label
	expression := func(cel string) cascadingv1.CascadingRuleSpec {
		spec := starts(cascadingv1.MatchesRule{}, "nmap", "-p", port, "{{{attributes.ip_addresses.0}}}")
		spec.Matches = cascadingv1.Matches{Expression: cel}
		return spec
	}
	rules(t, ns, map[string]cascadingv1.CascadingRuleSpec{
		"good":      expression(`finding.category == "Open Port" && finding.attributes.port > ` + strconv.Itoa(web.Port-1) + ` && finding.attributes.state in ["open"]`),
		"none":      expression(`finding.category == "Open Port" && finding.attributes.port < ` + port),
		"expensive": expression(`lists.range(2000).all(i, lists.range(2000).all(j, finding.name != string(i * j)))`),
		"refused":   refused,
	})
	one := func(c *executionv1.CascadeSpec) { c.MaxDepth = new(int32(1)) }
	s := cascadingOn(scans.New(ns, "nmap-unlucky", "nmap", "-p", port, web.Host), one)
	got := errored(t, s, executionv1.ReasonHookFailed, `Hook "cascading-scans"`, "rule expensive", "costs more", "rule refused", "metadata.labels")
	if strings.Contains(scans.Ready(got).Message, "rule good") || strings.Contains(scans.Ready(got).Message, "rule none") {
		t.Errorf("rules without mistakes are named: %s", scans.Ready(got).Message)
	}
	r := branches(t, got)
	wantOutline(t, r, "good: nmap -p "+port+" "+web.Host)
	r.wantFamily(t)
	if n := w.ran.Of(got.UID)[ledger.Role(jobsOf(got)[cascadingHook])]; n != 1 {
		t.Errorf("the hook had %d Jobs", n)
	}
}

// refuseScans makes the API server refuse Scans of a namespace for which a CEL condition
// does not hold, until the answer is called.
func refuseScans(t *testing.T, ns, condition string) (stop func()) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		Validations: []admissionv1.Validation{{Expression: condition, Message: "not yet"}},
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{"execution.securecodebox.io"}, APIVersions: []string{"*"}, Resources: []string{"scans"}},
		}}}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: ns, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}},
	}}
	createGlobal(t, policy, binding)
	return func() {
		if err := w.admin.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCascadeGoesOn: the API server lets the hook start some Scans only. When it lets it
// start all, the hook's next try starts those that are missing and no other.
func TestCascadeGoesOn(t *testing.T) {
	t.Parallel()
	const total, first, refused = 8, 1000, 1003
	ns := namespace(t)
	create(t, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
	chart(t, cascadingHook, ns, nil)
	// What they scan with does not exist, so they cost nothing.
	rules(t, ns, map[string]cascadingv1.CascadingRuleSpec{"ports": starts(cascadingv1.MatchesRule{Category: "Open Port"}, "nothing", "{{attributes.port}}")})
	letAll := refuseScans(t, ns, fmt.Sprintf(`object.spec.scanType != "nothing" || int(object.spec.parameters[0]) < %d`, refused))
	eventually(t, "Scans to be refused", func(ctx context.Context) (bool, error) {
		err := w.admin.Create(ctx, scans.New(ns, "try", "nothing", strconv.Itoa(refused)), client.DryRunAll)
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err), nil
	})
	want := map[string]int{}
	var ports []string
	for port := first; port < first+total; port++ {
		ports = append(ports, strconv.Itoa(port))
		want[strconv.Itoa(port)] = 1
	}
	s := cascadingOn(shellScan(ns, "many", "printf '%s' '"+nmapXML(ports...)+"' >"+resultPath))
	create(t, s)
	eventually(t, "the hook to say what is refused", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := w.admin.List(ctx, &pods, client.InNamespace(ns))
		for i := range pods.Items {
			for _, c := range pods.Items[i].Status.ContainerStatuses {
				if end := c.State.Terminated; c.Name == "hook" && end != nil {
					return strings.Contains(end.Message, fmt.Sprintf("rule ports: %d Scans were not started", first+total-refused)) && strings.Contains(end.Message, "not yet"), nil
				}
			}
		}
		return false, err
	})
	letAll()
	got := wantDone(t, s)
	var list executionv1.ScanList
	if err := w.admin.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	started := map[string]int{}
	for i := range list.Items {
		if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.UID == got.UID {
			started[list.Items[i].Spec.Parameters[0]]++
		}
	}
	if diff := cmp.Diff(want, started); diff != "" {
		t.Errorf("Scans by port (-want +got):\n%s", diff)
	}
	log := hookLog(t, got, cascadingHook)
	if made, found := strings.Count(log, "started Scan"), strings.Count(log, "is there already"); made != total || found < refused-first {
		t.Errorf("the tries of the hook have started %d Scans and found %d, want %d and at least %d:\n%s", made, found, total, refused-first, log)
	}
}

// TestCascadeAfterCategoriesChanged: a hook that writes has changed what rules match by,
// and the Scan says so.
func TestCascadeAfterCategoriesChanged(t *testing.T) {
	t.Parallel()
	web, ns := webSite(t), namespace(t)
	chart(t, "nmap", ns, nil)
	chart(t, cascadingHook, ns, nil)
	chart(t, "finding-post-processing", ns, map[string]any{"rules": []any{map[string]any{
		"matches":  map[string]any{"anyOf": []any{map[string]any{"category": "Open Port"}}},
		"override": map[string]any{"category": "Service", "severity": "LOW"},
	}}})
	port := strconv.Itoa(web.Port)
	rules(t, ns, map[string]cascadingv1.CascadingRuleSpec{
		"ports":    starts(openPort(web.Port), "nmap", "-p", port, web.Host),
		"services": starts(cascadingv1.MatchesRule{Category: "Service"}, "nmap", "-sT", "-p", port, web.Host),
	})
	s := cascadingOn(scans.New(ns, "nmap-changed", "nmap", "-p", port, web.Host))
	create(t, s)
	r := grown(t, s)
	wantOutline(t, r, "services: nmap -sT -p "+port+" "+web.Host)
	wantLines(t, keep(findings(t, r.Scan), "Service"), []string{port + " | LOW"}, "port", "severity")
	for _, c := range r.Status.Conditions {
		if c.Type == "CascadingRulesMatched" {
			for _, part := range []string{"Open Port", "ports", "finding-post-processing"} {
				if !strings.Contains(c.Message, part) {
					t.Errorf("the condition does not say %q: %s", part, c.Message)
				}
			}
			return
		}
	}
	t.Errorf("the Scan has no condition CascadingRulesMatched: %v", r.Status.Conditions)
}
