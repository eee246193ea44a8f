// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
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

// clusterCascades installs the charts for cascades of clusterWide Scans, once.
func clusterCascades(ctx context.Context) {
	GinkgoHelper()
	clusterCharts(ctx)
	onceForAll("cluster-cascades", func() (string, error) {
		return "", w.helm.Install(ctx, install.Release{
			Chart: cascadingHook, Name: clusterCascading, Namespace: clusterCascadingNamespace,
			Values: map[string]any{"clusterWide": true, "executionNamespace": clusterCascadingNamespace, "fullnameOverride": clusterCascading},
		})
	})
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
func rules(ctx context.Context, ns string, specs map[string]cascadingv1.CascadingRuleSpec) {
	GinkgoHelper()
	for name, spec := range specs {
		create(ctx, &cascadingv1.CascadingRule{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{ruleSet: ns}}, Spec: spec})
	}
}

// clusterRules makes cascading rules for the whole cluster. Their names begin with that
// of the namespace of the test.
func clusterRules(ctx context.Context, ns string, specs map[string]cascadingv1.CascadingRuleSpec) {
	GinkgoHelper()
	for name, spec := range specs {
		createGlobal(ctx, &cascadingv1.ClusterCascadingRule{ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + name, Labels: map[string]string{ruleSet: ns}}, Spec: spec})
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
func grown(ctx context.Context, s *executionv1.Scan) *tree {
	GinkgoHelper()
	return branches(ctx, wantDone(ctx, s))
}

func branches(ctx context.Context, s *executionv1.Scan) *tree {
	GinkgoHelper()
	var list executionv1.ScanList
	Expect(w.admin.List(ctx, &list, client.InNamespace(s.Namespace))).To(Succeed())
	out := &tree{Scan: s}
	for i := range list.Items {
		if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.UID == s.UID {
			out.children = append(out.children, grown(ctx, &list.Items[i]))
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

func wantOutline(r *tree, want ...string) {
	GinkgoHelper()
	slices.Sort(want)
	Expect(r.outline()).To(BeComparableTo(want), "Scans below %s", r.Name)
}

// wantFamily holds what ties children to the Scan that has started them.
func (r *tree) wantFamily(ctx context.Context) {
	GinkgoHelper()
	ids := map[string]bool{}
	for _, f := range findings(ctx, r.Scan) {
		ids[f.ID.String()] = true
	}
	for _, c := range r.children {
		want := []metav1.OwnerReference{*metav1.NewControllerRef(r.Scan, executionv1.SchemeGroupVersion.WithKind("Scan"))}
		Expect(c.OwnerReferences).To(BeComparableTo(want), "owners of %s", c.Name)
		if c.Annotations["securecodebox.io/hook"] != cascadingHook || c.Annotations[cascadingDomain+"parent-scan"] != r.Name || !ids[c.Annotations[cascadingDomain+"matched-finding"]] {
			Fail(fmt.Sprintf("annotations of %s are %v, want those of a child of %s, which has the findings %v", c.Name, c.Annotations, r.Name, slices.Collect(maps.Keys(ids))))
		}
		Expect(c.Mode()).To(Equal(r.Mode()), "resourceMode of %s is %s, that of its parent %s", c.Name, c.Mode(), r.Mode())
		c.wantFamily(ctx)
	}
}

var _ = Describe("Cascading Scans", Label("cascades"), func() {
	// Nmap finds a web server, whatweb looks at it, nmap finds a login on its
	// host, ncrack finds the password.
	Describe("go from a web server to a login to its password", func() {
		const words = "/ncrack"
		list := []string{"-U", words + "/users.txt", "-P", words + "/passwords.txt"}
		ownRules := func(web *target.Web, ftp *target.FTP) map[string]cascadingv1.CascadingRuleSpec {
			return map[string]cascadingv1.CascadingRuleSpec{
				"site":   starts(openPort(web.Port), "whatweb", "http://{{$.hostOrIP}}:{{attributes.port}}"),
				"logins": starts(cascadingv1.MatchesRule{Category: "WEB APPLICATION"}, "nmap", "-sV", "-p", strconv.Itoa(ftp.Port), "{{$.hostOrIP}}"),
			}
		}
		root := func(ctx context.Context, ns string, web *target.Web) *executionv1.Scan {
			yes := true
			s := cascadingOn(scans.New(ns, "nmap-first", "nmap", "-p", strconv.Itoa(web.Port), web.Host), func(c *executionv1.CascadeSpec) { c.InheritVolumes = &yes })
			files(ctx, s, words, map[string]string{"users.txt": "root\n" + ftpUser + "\n", "passwords.txt": "123456\n" + ftpPassword + "\n"})
			return s
		}
		check := func(ctx context.Context, first *executionv1.Scan, web *target.Web, ftp *target.FTP, last, lastParameters string) {
			create(ctx, first)
			r := grown(ctx, first)
			wantOutline(r,
				fmt.Sprintf("site: whatweb http://localhost:%d", web.Port),
				fmt.Sprintf("site,logins: nmap -sV -p %d %s", ftp.Port, web.Host),
				fmt.Sprintf("site,logins,%s: ncrack %s -p ftp:%d localhost", last, lastParameters, ftp.Port))
			r.wantFamily(ctx)
			all := r.all()
			wantLines(findings(ctx, all[1]), []string{fmt.Sprintf("WEB APPLICATION | http://localhost:%d | nginx/1.29.0", web.Port)}, "category", "location", "HTTPServer")
			wantLines(keep(findings(ctx, all[2]), "Open Port"), []string{fmt.Sprintf("%d | ftp | vsftpd", ftp.Port)}, "port", "service", "serviceProduct")
			wantLines(findings(ctx, all[3]), []string{fmt.Sprintf("Discovered Credentials | HIGH | %s | %s", ftpUser, ftpPassword)}, "category", "severity", "username", "password")
			wantGoneTogether(ctx, all)
		}
		It("in a namespace", Label("smoke"), func(ctx SpecContext) {
			web, ftp, ns := webSite(), ftpServer(), namespace(ctx)
			for _, name := range []string{"nmap", "whatweb", cascadingHook} {
				chart(ctx, name, ns, nil)
			}
			// The last rule is the chart's own.
			chart(ctx, "ncrack", ns, map[string]any{"cascadingRules": map[string]any{"enabled": true}})
			rules(ctx, ns, ownRules(web, ftp))
			first := root(ctx, ns, web)
			first.Spec.Cascades.MatchLabels = nil
			check(ctx, first, web, ftp, "ncrack-ftp", strings.Join(append([]string{"-v", "-d10"}, list...), " "))
		})
		It("for the whole cluster", func(ctx SpecContext) {
			clusterCascades(ctx)
			web, ftp, ns := webSite(), ftpServer(), namespace(ctx)
			own := ownRules(web, ftp)
			own["passwords"] = starts(cascadingv1.MatchesRule{Category: "Open Port", Attributes: map[string]intstr.IntOrString{"service": intstr.FromString("ftp")}},
				"ncrack", append(slices.Clone(list), "-p", "ftp:{{attributes.port}}", "{{$.hostOrIP}}")...)
			clusterRules(ctx, ns, own)
			first := wideCascade(root(ctx, ns, web))
			check(ctx, first, web, ftp, "passwords", strings.Join(list, " "))
		})
	})

	It("see the rules of their own kind only", func(ctx SpecContext) {
		clusterCascades(ctx)
		web, ns := webSite(), namespace(ctx)
		chart(ctx, "nmap", ns, nil)
		chart(ctx, cascadingHook, ns, nil)
		port := strconv.Itoa(web.Port)
		rules(ctx, ns, map[string]cascadingv1.CascadingRuleSpec{"local": starts(openPort(web.Port), "nmap", "-sT", "-p", port, web.Host)})
		clusterRules(ctx, ns, map[string]cascadingv1.CascadingRuleSpec{"wide": starts(openPort(web.Port), "nmap", "-sT", "-p", port, web.Host)})
		local := cascadingOn(scans.New(ns, "nmap-local", "nmap", "-p", port, web.Host))
		wide := wideCascade(cascadingOn(scans.New(ns, "nmap-wide", "nmap", "-p", port, web.Host)))
		create(ctx, local, wide)
		wantOutline(grown(ctx, local), "local: nmap -sT -p "+port+" "+web.Host)
		wantOutline(grown(ctx, wide), "wide: nmap -sT -p "+port+" "+web.Host)
	})

	// Lets the same cascade go without brakes and with each of them. Two
	// findings start equal Scans, from which one more comes, and one more.
	It("stop at each limit that is set", func(ctx SpecContext) {
		ns := namespace(ctx)
		chart(ctx, "nmap", ns, nil)
		chart(ctx, cascadingHook, ns, nil)
		var port [4]int
		var host string
		for i := range port {
			web := webSite()
			port[i], host = web.Port, web.Host
		}
		nmap := func(match cascadingv1.MatchesRule, to int) cascadingv1.CascadingRuleSpec {
			return starts(match, "nmap", "-p", strconv.Itoa(to), host)
		}
		first := nmap(openPort(port[0]), port[2])
		first.Matches.AnyOf = append(first.Matches.AnyOf, openPort(port[1]))
		rules(ctx, ns, map[string]cascadingv1.CascadingRuleSpec{"first": first, "second": nmap(openPort(port[2]), port[3]), "third": nmap(openPort(port[3]), port[2])})
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
		all := map[string]*executionv1.Scan{}
		for name, tc := range cases {
			all[name] = cascadingOn(scans.New(ns, "nmap-"+strings.ToLower(name), "nmap", "-n", "-p", fmt.Sprintf("%d,%d", port[0], port[1]), host), tc.brake)
			create(ctx, all[name])
		}
		for name, tc := range cases {
			By(name, func() {
				r := grown(ctx, all[name])
				wantOutline(r, tc.want...)
				Expect(hookLog(ctx, r.Scan, cascadingHook)).To(ContainSubstring(tc.says), "the hook's log")
			})
		}
	})

	It("start nothing out of scope, and children stay in it", func(ctx SpecContext) {
		web, ns := webSite(), namespace(ctx)
		chart(ctx, "nmap", ns, nil)
		chart(ctx, cascadingHook, ns, nil)
		port := strconv.Itoa(web.Port)
		rules(ctx, ns, map[string]cascadingv1.CascadingRuleSpec{"hosts": starts(cascadingv1.MatchesRule{Category: "Host"}, "nmap", "-n", "-p", port, "{{$.hostOrIP}}")})
		const network = "scope.cascading.securecodebox.io/network"
		s := cascadingOn(scans.New(ns, "nmap-hosts", "nmap", "-n", "-p", port, web.Host, "127.0.0.2"), func(c *executionv1.CascadeSpec) {
			c.ScopeLimiter = &executionv1.ScopeLimiter{AllOf: []executionv1.ScopeLimiterRequirement{{Key: network, Operator: "InCIDR", Values: []string{"{{#asList}}attributes.ip_addresses{{/asList}}"}}}}
		})
		s.Annotations = map[string]string{network: web.Host + "/32"}
		create(ctx, s)
		r := grown(ctx, s)
		if hosts := keep(findings(ctx, r.Scan), "Host"); len(hosts) != 2 {
			Fail(fmt.Sprintf("nmap has found the hosts %v, want 2", lines(hosts, "location")))
		}
		wantOutline(r, "hosts: nmap -n -p "+port+" "+web.Host)
		for _, c := range r.children {
			if got := c.Annotations[network]; got != web.Host+"/32" {
				Fail(fmt.Sprintf("the scope of %s is %q, want that of its parent", c.Name, got))
			}
			Expect(c.Spec.Cascades.ScopeLimiter).To(BeComparableTo(r.Spec.Cascades.ScopeLimiter), "the scopeLimiter of %s (-parent's +its)", c.Name)
		}
	})

	// Rules with mistakes fail the hook, which names them; the
	// others have started what they start, once, though the hook was tried again.
	It("name rules with mistakes, and start once what the other rules start", slow, func(ctx SpecContext) {
		web, ns := webSite(), namespace(ctx)
		chart(ctx, "nmap", ns, nil)
		chart(ctx, cascadingHook, ns, nil)
		port := strconv.Itoa(web.Port)
		refused := starts(openPort(web.Port), "nmap", "-p", port, web.Host)
		refused.ScanLabels = map[string]string{"at": "{{{location}}}"} // tcp://… is not a value of a label
		expression := func(cel string) cascadingv1.CascadingRuleSpec {
			spec := starts(cascadingv1.MatchesRule{}, "nmap", "-p", port, "{{{attributes.ip_addresses.0}}}")
			spec.Matches = cascadingv1.Matches{Expression: cel}
			return spec
		}
		rules(ctx, ns, map[string]cascadingv1.CascadingRuleSpec{
			"good":      expression(`finding.category == "Open Port" && finding.attributes.port > ` + strconv.Itoa(web.Port-1) + ` && finding.attributes.state in ["open"]`),
			"none":      expression(`finding.category == "Open Port" && finding.attributes.port < ` + port),
			"expensive": expression(`lists.range(2000).all(i, lists.range(2000).all(j, finding.name != string(i * j)))`),
			"refused":   refused,
		})
		one := func(c *executionv1.CascadeSpec) { c.MaxDepth = new(int32(1)) }
		s := cascadingOn(scans.New(ns, "nmap-unlucky", "nmap", "-p", port, web.Host), one)
		got := errored(ctx, s, executionv1.ReasonHookFailed, `Hook "cascading-scans"`, "rule expensive", "costs more", "rule refused", "metadata.labels")
		if strings.Contains(scans.Ready(got).Message, "rule good") || strings.Contains(scans.Ready(got).Message, "rule none") {
			Fail(fmt.Sprintf("rules without mistakes are named: %s", scans.Ready(got).Message))
		}
		r := branches(ctx, got)
		wantOutline(r, "good: nmap -p "+port+" "+web.Host)
		r.wantFamily(ctx)
		if n := w.ran.Of(got.UID)[ledger.Role(jobsOf(got)[cascadingHook])]; n != 1 {
			Fail(fmt.Sprintf("the hook had %d Jobs", n))
		}
	})

	// The API server lets the hook start some Scans only. When it lets it
	// start all, the hook's next try starts those that are missing and no other.
	It("start at the next try what the API server refused at first, and nothing twice", func(ctx SpecContext) {
		const total, first, refused = 8, 1000, 1003
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
		chart(ctx, cascadingHook, ns, nil)
		// What they scan with does not exist, so they cost nothing.
		rules(ctx, ns, map[string]cascadingv1.CascadingRuleSpec{"ports": starts(cascadingv1.MatchesRule{Category: "Open Port"}, "nothing", "{{attributes.port}}")})
		letAll := refuseScans(ctx, ns, fmt.Sprintf(`object.spec.scanType != "nothing" || int(object.spec.parameters[0]) < %d`, refused))
		eventually(ctx, "Scans to be refused", func(ctx context.Context) (bool, error) {
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
		create(ctx, s)
		eventually(ctx, "the hook to say what is refused", func(ctx context.Context) (bool, error) {
			for _, pod := range podsOf(ctx, ns) {
				for _, c := range pod.Status.ContainerStatuses {
					if end := c.State.Terminated; c.Name == "hook" && end != nil {
						return strings.Contains(end.Message, fmt.Sprintf("rule ports: %d Scans were not started", first+total-refused)) && strings.Contains(end.Message, "not yet"), nil
					}
				}
			}
			return false, nil
		})
		letAll()
		got := wantDone(ctx, s)
		var list executionv1.ScanList
		Expect(w.admin.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
		started := map[string]int{}
		for i := range list.Items {
			if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.UID == got.UID {
				started[list.Items[i].Spec.Parameters[0]]++
			}
		}
		Expect(started).To(BeComparableTo(want), "Scans by port")
		log := hookLog(ctx, got, cascadingHook)
		if made, found := strings.Count(log, "started Scan"), strings.Count(log, "is there already"); made != total || found < refused-first {
			Fail(fmt.Sprintf("the tries of the hook have started %d Scans and found %d, want %d and at least %d:\n%s", made, found, total, refused-first, log))
		}
	})

	// A hook that writes has changed what rules match by,
	// and the Scan says so.
	It("report that a hook has changed what rules match", func(ctx SpecContext) {
		web, ns := webSite(), namespace(ctx)
		chart(ctx, "nmap", ns, nil)
		chart(ctx, cascadingHook, ns, nil)
		chart(ctx, "finding-post-processing", ns, map[string]any{"rules": []any{map[string]any{
			"matches":  map[string]any{"anyOf": []any{map[string]any{"category": "Open Port"}}},
			"override": map[string]any{"category": "Service", "severity": "LOW"},
		}}})
		port := strconv.Itoa(web.Port)
		rules(ctx, ns, map[string]cascadingv1.CascadingRuleSpec{
			"ports":    starts(openPort(web.Port), "nmap", "-p", port, web.Host),
			"services": starts(cascadingv1.MatchesRule{Category: "Service"}, "nmap", "-sT", "-p", port, web.Host),
		})
		s := cascadingOn(scans.New(ns, "nmap-changed", "nmap", "-p", port, web.Host))
		create(ctx, s)
		r := grown(ctx, s)
		wantOutline(r, "services: nmap -sT -p "+port+" "+web.Host)
		wantLines(keep(findings(ctx, r.Scan), "Service"), []string{port + " | LOW"}, "port", "severity")
		for _, c := range r.Status.Conditions {
			if c.Type == "CascadingRulesMatched" {
				for _, part := range []string{"Open Port", "ports", "finding-post-processing"} {
					Expect(c.Message).To(ContainSubstring(part), "the condition does not say %q: %s", part, c.Message)
				}
				return
			}
		}
		Fail(fmt.Sprintf("the Scan has no condition CascadingRulesMatched: %v", r.Status.Conditions))
	})
})

// wantGoneTogether deletes the first Scan of a cascade: all others go, and what they have
// stored.
func wantGoneTogether(ctx context.Context, all []*executionv1.Scan) {
	GinkgoHelper()
	Expect(w.admin.Delete(ctx, all[0])).To(Succeed())
	for _, s := range all {
		gone(ctx, s)
		Expect(stored(ctx, s)).To(BeEmpty(), "Scan %s is gone, and storage still has", s.Name)
	}
	// The cluster-wide hook's Jobs are in another namespace, where no owner takes them along.
	eventually(ctx, "the Jobs to be gone", func(context.Context) (bool, error) {
		for _, s := range all {
			if len(jobsOf(s)) > 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// hookLog returns what the pods of a hook have logged.
func hookLog(ctx context.Context, s *executionv1.Scan, hook string) string {
	GinkgoHelper()
	job := jobsOf(s)[hook]
	Expect(job).NotTo(BeNil(), "Scan %s has no Job of hook %s", s.Name, hook)
	return podLogs(ctx, job.Namespace, ofJob(job))
}

// podLogs returns what pods have logged, one after another.
func podLogs(ctx context.Context, ns string, which ...client.ListOption) string {
	GinkgoHelper()
	var out strings.Builder
	for _, pod := range podsOf(ctx, ns, which...) {
		for _, c := range pod.Spec.Containers {
			b, err := w.kube.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{Container: c.Name}).DoRaw(ctx)
			Expect(err).NotTo(HaveOccurred(), "read the log of %s", pod.Name)
			out.Write(b)
		}
	}
	return out.String()
}

// refuseScans makes the API server refuse Scans of a namespace for which a CEL condition
// does not hold, until the answer is called.
func refuseScans(ctx context.Context, ns, condition string) (stop func()) {
	GinkgoHelper()
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
	createGlobal(ctx, policy, binding)
	return func() {
		Expect(w.admin.Delete(ctx, binding)).To(Succeed())
	}
}
