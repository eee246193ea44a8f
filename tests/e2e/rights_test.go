// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/scans"
)

// who is somebody whose rights are measured.
type who struct {
	title  string
	user   string
	groups []string
	// names are objects that are asked about, by resource, where a right may hold for one
	// only. Without a name, all objects of the resource are asked about.
	names map[string]string
}

func person(title, user string, groups ...string) who {
	return who{title: title, user: user, groups: append(groups, "system:authenticated")}
}

func podAccount(title, ns, name string) who {
	return who{title: title, user: "system:serviceaccount:" + ns + ":" + name, groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + ns, "system:authenticated"}}
}

// thing is what rights are about.
type thing struct {
	group, name, subresource string
	cluster                  bool
}

func (r thing) String() string {
	name := r.name
	if r.subresource != "" {
		name += "/" + r.subresource
	}
	return name
}

const (
	ourGroup       = "execution.securecodebox.io"
	rulesGroup     = "cascading.securecodebox.io"
	settingsGroup  = "settings.scanyard.io"
	admissionGroup = "admissionregistration.k8s.io"
)

// things are ours, and those of Kubernetes by which somebody could get at ours.
var things = []thing{
	{group: ourGroup, name: "scans"},
	{group: ourGroup, name: "scans", subresource: "status"},
	{group: ourGroup, name: "scans", subresource: "results"},
	{group: ourGroup, name: "scheduledscans"},
	{group: ourGroup, name: "scheduledscans", subresource: "status"},
	{group: ourGroup, name: "scantypes"},
	{group: ourGroup, name: "parsedefinitions"},
	{group: ourGroup, name: "scancompletionhooks"},
	{group: rulesGroup, name: "cascadingrules"},
	{group: settingsGroup, name: "scansettings"},
	{group: settingsGroup, name: "scansettings", subresource: "status"},
	{group: settingsGroup, name: "findingexceptions"},
	{group: settingsGroup, name: "findingexceptions", subresource: "status"},
	{group: ourGroup, name: "clusterscantypes", cluster: true},
	{group: ourGroup, name: "clusterparsedefinitions", cluster: true},
	{group: ourGroup, name: "clusterscancompletionhooks", cluster: true},
	{group: rulesGroup, name: "clustercascadingrules", cluster: true},
	{group: settingsGroup, name: "clusterscansettings", cluster: true},
	{group: settingsGroup, name: "clusterscansettings", subresource: "status", cluster: true},
	{group: settingsGroup, name: "clusterfindingexceptions", cluster: true},
	{group: settingsGroup, name: "clusterfindingexceptions", subresource: "status", cluster: true},
	{group: "wgpolicyk8s.io", name: "policyreports"},
	{group: "registry.scanyard.io", name: "registries"},
	{group: "registry.scanyard.io", name: "registries", subresource: "status"},
	{group: "registry.scanyard.io", name: "discoveryjobs"},
	{group: "registry.scanyard.io", name: "discoveryjobs", subresource: "status"},
	{group: "registry.scanyard.io", name: "scanjobs"},
	{group: "registry.scanyard.io", name: "scanjobs", subresource: "status"},
	{group: "reports.scanyard.io", name: "images"},
	{group: "reports.scanyard.io", name: "images", subresource: "status"},
	{group: "reports.scanyard.io", name: "images", subresource: "reuse"},
	{group: "reports.scanyard.io", name: "repositories"},
	{group: "reports.scanyard.io", name: "repositories", subresource: "status"},
	{group: "reports.scanyard.io", name: "repositories", subresource: "tags"},
	{group: "reports.scanyard.io", name: "sboms"},
	{group: "reports.scanyard.io", name: "sboms", subresource: "document"},
	{group: "reports.scanyard.io", name: "vulnerabilityreports"},
	{group: "reports.scanyard.io", name: "vulnerabilityreports", subresource: "findings"},
	{group: "reports.scanyard.io", name: "imagequeries"},
	{group: "reports.scanyard.io", name: "vulnerabilitydatabases", cluster: true},
	{group: "reports.scanyard.io", name: "vulnerabilitydatabases", subresource: "status", cluster: true},
	{group: "reports.scanyard.io", name: "vulnerabilitydatabases", subresource: "changes", cluster: true},
	{name: "pods"},
	{name: "pods", subresource: "exec"},
	{name: "pods", subresource: "log"},
	{group: "batch", name: "jobs"},
	{name: "secrets"},
	{name: "configmaps"},
	{name: "events"},
	{name: "serviceaccounts"},
	{name: "serviceaccounts", subresource: "token"},
	{group: "rbac.authorization.k8s.io", name: "roles"},
	{group: "rbac.authorization.k8s.io", name: "rolebindings"},
	{group: "rbac.authorization.k8s.io", name: "clusterroles", cluster: true},
	{group: "rbac.authorization.k8s.io", name: "clusterrolebindings", cluster: true},
	{name: "namespaces", cluster: true},
	{name: "nodes", cluster: true},
	{name: "services"},
	{group: "networking.k8s.io", name: "ingresses"},
	{group: "gateway.networking.k8s.io", name: "gateways"},
	{group: "gateway.networking.k8s.io", name: "httproutes"},
	{group: "authentication.k8s.io", name: "tokenreviews", cluster: true},
	{group: "authorization.k8s.io", name: "subjectaccessreviews", cluster: true},
	{group: "apiregistration.k8s.io", name: "apiservices", cluster: true},
	{name: "resourcequotas"},
	{name: "resourcequotas", subresource: "status"},
	{group: admissionGroup, name: "validatingadmissionpolicies", cluster: true},
	{group: "coordination.k8s.io", name: "leases"},
	{group: admissionGroup, name: "validatingwebhookconfigurations", cluster: true},
	{group: admissionGroup, name: "mutatingwebhookconfigurations", cluster: true},
	{group: "apiextensions.k8s.io", name: "customresourcedefinitions", cluster: true},
	{group: "apiextensions.k8s.io", name: "customresourcedefinitions", subresource: "status", cluster: true},
	{group: "storagemigration.k8s.io", name: "storageversionmigrations", cluster: true},
	{name: "users", cluster: true},
	{name: "groups", cluster: true},
}

// The verbs that are asked about. Those of kinds is what most cells say in one word.
var (
	readVerbs  = []string{"get", "list", "watch"}
	writeVerbs = []string{"create", "update", "patch", "delete"}
	moreVerbs  = []string{"deletecollection", "bind", "escalate", "impersonate"}
)

// cell asks the API server what somebody may do with a resource, and says it in a word.
func (r thing) cell(ctx context.Context, a who, ns string) (string, error) {
	GinkgoHelper()
	var may []string
	for _, verb := range slices.Concat(readVerbs, writeVerbs, moreVerbs) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: a.user, Groups: a.groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: ns, Verb: verb, Group: r.group, Version: "*", Resource: r.name, Subresource: r.subresource, Name: a.names[r.name],
			},
		}}
		if r.cluster {
			review.Spec.ResourceAttributes.Namespace = ""
		}
		got, err := w.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		if got.Status.Allowed {
			may = append(may, verb)
		}
	}
	return inWords(may), nil
}

// inWords shortens a list of verbs.
func inWords(may []string) string {
	if len(may) == len(readVerbs)+len(writeVerbs)+len(moreVerbs) {
		return "all"
	}
	var words []string
	has := func(verbs []string) bool {
		return !slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(may, v) })
	}
	for _, set := range []struct {
		word  string
		verbs []string
	}{{"read", readVerbs}, {"write", writeVerbs}} {
		if has(set.verbs) {
			words = append(words, set.word)
			may = slices.DeleteFunc(may, func(v string) bool { return slices.Contains(set.verbs, v) })
		}
	}
	// Deleting many at once is deleting.
	may = slices.DeleteFunc(may, func(v string) bool { return v == "deletecollection" && slices.Contains(words, "write") })
	if words = append(words, may...); len(words) == 0 {
		return "–"
	}
	return strings.Join(words, ", ")
}

// measure asks for a whole table. Rows in which nobody may do anything are left out.
func measure(ctx context.Context, ns string, everybody []who) [][]string {
	GinkgoHelper()
	cells := make([][]string, len(things))
	var g errgroup.Group
	g.SetLimit(16)
	for i, r := range things {
		cells[i] = make([]string, len(everybody)+1)
		cells[i][0] = "`" + r.String() + "`"
		for j, a := range everybody {
			g.Go(func() (err error) {
				cells[i][j+1], err = r.cell(ctx, a, ns)
				return err
			})
		}
	}
	Expect(g.Wait()).To(Succeed())
	head := []string{""}
	for _, a := range everybody {
		head = append(head, a.title)
	}
	cells = slices.DeleteFunc(cells, func(row []string) bool {
		return !slices.ContainsFunc(row[1:], func(c string) bool { return c != "–" })
	})
	return append([][]string{head}, cells...)
}

// team makes a namespace with somebody in each role.
func team(ctx context.Context) (ns string, members []who) {
	GinkgoHelper()
	ns = namespace(ctx)
	for _, role := range []string{"view", "edit", "admin"} {
		user := ns + "-" + role
		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})
		members = append(members, person("`"+role+"`", user))
	}
	return ns, members
}

var _ = Describe("Rights", Label("rights"), func() {
	// Measures what the roles of a team may do, in the team's namespace and
	// in another, with the chart's RBAC.
	It("of people are what the documentation says, and end at their namespace", func(ctx SpecContext) {
		ns, members := team(ctx)
		aggregated(ctx, members)
		nobody, admin := person("logged in", "somebody"), person("cluster admin", "root", "system:masters")
		everybody := append(append([]who{nobody}, members...), admin)
		wantDocumented("rights-people", markdownTable(measure(ctx, ns, everybody)))

		// Elsewhere a member of a team is somebody who is logged in.
		elsewhere := namespace(ctx)
		want := measure(ctx, elsewhere, []who{nobody, nobody, nobody})
		got := measure(ctx, elsewhere, members)
		if want, got := fmt.Sprint(want[1:]), fmt.Sprint(got[1:]); want != got {
			Fail(fmt.Sprintf("in another namespace members of the team may do\n%s\nwant only what everybody may\n%s", got, want))
		}
	})

	// Measures the accounts that the operator and the charts make.
	// Those of charts are installed into the namespace for it.
	It("of the operator's and the charts' accounts are what the documentation says", func(ctx SpecContext) {
		clusterCascades(ctx)
		ns := prepared(ctx)
		chart(ctx, cascadingHook, ns, nil)
		chart(ctx, "persistence-reports", ns, nil)
		release(ctx, install.Release{Chart: "trivy", Namespace: ns, Values: map[string]any{"createAutoDiscoveryScanType": true}})
		s, account, _ := heldScan(ctx, ns, "mine")
		ownScan, otherScan := podAccount("a Scan's account, on its Scan", ns, account), podAccount("… on all others", ns, account)
		ownScan.names = map[string]string{"scans": s.Name, "parsedefinitions": "test-txt"}
		otherScan.names = map[string]string{"scans": "other", "parsedefinitions": "other"}
		lurker := podAccount("`lurker`", ns, executionv1.ServiceAccountLurker)

		pods := []who{
			lurker, ownScan, otherScan, podAccount("`cascading-scans`", ns, cascadingHook),
			podAccount("`cascading-scans`, cluster-wide", clusterCascadingNamespace, cascadingHook),
			podAccount("`trivy-k8s`", ns, "trivy-k8s"), podAccount("`trivy-autodiscovery`", ns, "trivy-autodiscovery"),
			podAccount("`persistence-reports`", ns, "persistence-reports"),
		}
		wantDocumented("rights-pods", markdownTable(measure(ctx, ns, pods)))

		operator := podAccount("any namespace", install.Namespace, "securecodebox-operator")
		home, named := operator, operator
		home.title, named.title = "its own namespace", "… the objects of its release"
		named.names = map[string]string{
			"secrets": "scanyard-upload-tls", "leases": "e341d981.securecodebox.io", "validatingwebhookconfigurations": "scanyard-" + install.Namespace,
			"mutatingwebhookconfigurations": "scanyard-" + install.Namespace,
			"customresourcedefinitions":     "scansettings.settings.scanyard.io", "storageversionmigrations": "scanyard-scansettings",
		}
		wantDocumented("rights-operator", markdownTable(sideBySide(
			measure(ctx, ns, []who{operator}), measure(ctx, install.Namespace, []who{home}), measure(ctx, install.Namespace, []who{named}))))

		// None of them reaches another namespace, but those that are for the whole cluster.
		elsewhere := namespace(ctx)
		nobody := podAccount("", elsewhere, "nobody")
		for _, a := range pods {
			want := measure(ctx, elsewhere, []who{nobody})
			if got := measure(ctx, elsewhere, []who{a}); !strings.Contains(a.title, "cluster-wide") && fmt.Sprint(want[1:]) != fmt.Sprint(got[1:]) {
				Fail(fmt.Sprintf("%s may do in another namespace\n%v\nwant\n%v", a.title, got[1:], want[1:]))
			}
		}
	})

	// Measures the accounts of what finds something to scan, by the
	// charts' values as they are, and with all that can be switched on.
	It("of auto-discovery are what the documentation says", func(ctx SpecContext) {
		ns := namespace(ctx)
		on := map[string]any{"enabled": true}
		for name, values := range map[string]map[string]any{
			"kubernetes":     {},
			"kubernetes-all": {"config": map[string]any{"containerAutoDiscovery": on, "ingressAutoDiscovery": on, "gatewayAutoDiscovery": on}},
			"cloud-aws":      {"config": map[string]any{"aws": map[string]any{"queueUrl": "https://sqs.eu-central-1.amazonaws.com/123456789012/events"}}},
		} {
			values["fullnameOverride"], values["replicas"] = name, 0 // only what they may do is of interest
			release(ctx, install.Release{Chart: "auto-discovery-" + strings.TrimSuffix(name, "-all"), Name: name, Namespace: ns, Values: values})
		}
		elsewhere := namespace(ctx)
		var tables [][][]string
		for _, name := range []string{"kubernetes", "kubernetes-all", "cloud-aws"} {
			a := podAccount("`"+name+"`, its namespace", ns, name)
			b := podAccount("… in others", ns, name)
			tables = append(tables, measure(ctx, ns, []who{a}), measure(ctx, elsewhere, []who{b}))
		}
		wantDocumented("rights-discovery", markdownTable(sideBySide(tables...)))
	})

	// The server reaches no report but by its database, and no object of a namespace but quotas. Only what it may do is of
	// interest, so that there is no server, and no role for people in the cluster that other specs share.
	It("of the reports API server are what the documentation says", func(ctx SpecContext) {
		ns := namespace(ctx)
		release(ctx, install.Release{Chart: "reports", Name: "reports", Namespace: ns, Values: map[string]any{
			"replicas": 0, "rbac": map[string]any{"userRoles": false},
		}})
		server := podAccount("any namespace", ns, "reports-apiserver")
		home, named := server, server
		home.title, named.title = "its own namespace", "… the objects of its release"
		named.names = map[string]string{"secrets": "reports-tls", "services": "reports", "apiservices": "v1alpha2.wgpolicyk8s.io"}
		wantDocumented("rights-reports", markdownTable(sideBySide(
			measure(ctx, namespace(ctx), []who{server}), measure(ctx, ns, []who{home}), measure(ctx, ns, []who{named}))))
	})

	// What the operator may do further where the forwarder is told where results lie. Only the rights are of interest, so
	// that there is no second operator.
	It("of the operator with its results endpoint are what the documentation says", func(ctx SpecContext) {
		ns := namespace(ctx)
		off := map[string]any{"enabled": false}
		release(ctx, install.Release{Chart: "scanyard", Name: "results", Namespace: ns, Values: map[string]any{
			"fullnameOverride": "results", "replicas": 0, "minio": off, "s3": elsewhere, "webhook": off, "statusPolicy": off, "scanPolicy": map[string]any{"mode": "never"},
			"rbac":            map[string]any{"userRoles": map[string]any{"create": false}},
			"resultsEndpoint": map[string]any{"enabled": true},
		}})
		without := podAccount("", install.Namespace, "securecodebox-operator")
		without.names = map[string]string{"secrets": "scanyard-upload-tls", "leases": "e341d981.securecodebox.io"}
		with := podAccount("any namespace", ns, "securecodebox-operator")
		home, named := with, with
		home.title, named.title = "its own namespace", "… the objects of its release"
		named.names = map[string]string{"secrets": "results-upload-tls", "leases": "e341d981.securecodebox.io", "configmaps": "scanyard-results-ca"}
		known := fmt.Sprint(measure(ctx, install.Namespace, []who{without}))
		further := measure(ctx, ns, []who{named})
		further = slices.DeleteFunc(further, func(row []string) bool { return row[0] != "" && strings.Contains(known, fmt.Sprint(row)) })
		table := sideBySide(measure(ctx, namespace(ctx), []who{with}), measure(ctx, ns, []who{home}), further)
		table = slices.DeleteFunc(table, func(row []string) bool { return row[0] != "" && row[len(row)-1] == "–" })
		wantDocumented("rights-operator-results", markdownTable(table))
	})

	// The forwarder reads no Secret and no ConfigMap but by name, and gives up results only where that is switched on. Only
	// what it may do is of interest, so that there is none.
	It("of the forwarder are what the documentation says", func(ctx SpecContext) {
		installed := func(switched bool) string {
			ns := namespace(ctx)
			release(ctx, install.Release{Chart: "forwarding", Name: "forwarding", Namespace: ns, Values: map[string]any{
				"forwarder": map[string]any{
					"enabled": true, "replicas": 0, "secrets": []string{"siem-token"}, "storageSwitch": map[string]any{"enabled": switched},
				},
			}})
			return ns
		}
		ns := installed(false)
		forwarder := podAccount("any namespace", ns, "scanyard-forwarder")
		switched := podAccount("… with the storage switch", installed(true), "scanyard-forwarder")
		home, named := forwarder, forwarder
		home.title, named.title = "its own namespace", "… the objects of its release"
		named.names = map[string]string{"secrets": "siem-token", "configmaps": "scanyard-cluster-id", "leases": "scanyard-forwarder"}
		wantDocumented("rights-forwarder", markdownTable(sideBySide(
			measure(ctx, namespace(ctx), []who{forwarder}), measure(ctx, namespace(ctx), []who{switched}),
			measure(ctx, ns, []who{home}), measure(ctx, ns, []who{named}))))
	})

	// Controller and workers read no Secret but by name, and write reports only. Only what they may do is of interest, so that
	// there are none, and no role for people in the cluster that other specs share.
	It("of registry scanning are what the documentation says", func(ctx SpecContext) {
		ns := namespace(ctx)
		none := map[string]any{"replicas": 0}
		release(ctx, install.Release{Chart: "registry", Name: "registry", Namespace: ns, Values: map[string]any{
			"controller": none, "worker": none, "webhook": map[string]any{"enabled": false}, "rbac": map[string]any{"userRoles": false},
		}})
		release(ctx, install.Release{Chart: "registry-findings", Namespace: ns})
		elsewhere := namespace(ctx)
		tables := [][][]string{measure(ctx, ns, []who{podAccount("registry-findings", ns, "registry-findings")})}
		for _, name := range []string{"controller", "worker"} {
			a := podAccount(name+", any namespace", ns, "registry-"+name)
			b := podAccount("… its own", ns, "registry-"+name)
			tables = append(tables, measure(ctx, elsewhere, []who{a}), measure(ctx, ns, []who{b}))
		}
		wantDocumented("rights-registry", markdownTable(sideBySide(tables...)))
	})

	// The console reads with the rights of who looks. Only what it may do is of interest, so that there is none.
	It("of the console are what the documentation says", func(ctx SpecContext) {
		account := func(title string, proxy map[string]any, names map[string]string) who {
			ns := namespace(ctx)
			release(ctx, install.Release{Chart: "console", Name: "console", Namespace: ns, Values: map[string]any{
				"url": "https://console.example.com", "replicas": 0, "signIn": map[string]any{"tokens": len(proxy) == 0, "proxy": proxy},
			}})
			a := podAccount(title, ns, "scanyard-console")
			a.names = names
			return a
		}
		named := map[string]string{"users": "scanyard-console", "groups": "team-a"}
		proxy := map[string]any{"addresses": []string{"10.0.0.0/24"}, "groups": []string{"team-a"}}
		plain, before := account("as it comes", map[string]any{}, named), account("before a proxy", proxy, nil)
		listed := before
		listed.title, listed.names = "… the user, and a group that is named", named
		ns := namespace(ctx)
		wantDocumented("rights-console", markdownTable(sideBySide(
			measure(ctx, ns, []who{plain}), measure(ctx, ns, []who{before}), measure(ctx, ns, []who{listed}))))
	})

	It("of no chart's account are left out", func() {
		files, err := filepath.Glob("../../charts/internal/golden/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty(), "no rendered charts: %v", err)
		found := map[string]bool{}
		for _, file := range files {
			b, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			if !strings.Contains(string(b), "\nkind: ServiceAccount\n") {
				continue
			}
			chart := slices.IndexFunc(measuredCharts, func(name string) bool { return strings.HasPrefix(filepath.Base(file), name) })
			if chart < 0 {
				Fail(fmt.Sprintf("charts/internal/golden/%s has a ServiceAccount that is in no table of docs/security.md: measure it here", filepath.Base(file)))
				continue
			}
			found[measuredCharts[chart]] = true
		}
		Expect(found).To(HaveLen(len(measuredCharts)), "only %v have a ServiceAccount, want %v", found, measuredCharts)
	})

	// Tries what the tables say, by impersonation, where it matters most:
	// settings and kinds of the cluster.
	It("hold when they are tried, for settings and kinds of the cluster", Label("smoke"), func(ctx SpecContext) {
		ns, members := team(ctx)
		aggregated(ctx, members)
		kind := func() *executionv1.ClusterScanType {
			return &executionv1.ClusterScanType{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: shellSpec("test-txt")}
		}
		createGlobal(ctx, kind())
		for _, m := range members {
			c := as(m.user)
			wantAllowed(ctx, m.user, attempt{"list ClusterScanTypes", func(ctx context.Context) error { return c.List(ctx, &executionv1.ClusterScanTypeList{}) }})
			other := kind()
			other.Name += "-" + strings.Trim(m.title, "`")
			wantForbidden(ctx, m.user,
				attempt{"create a ClusterScanType", func(ctx context.Context) error { return c.Create(ctx, other) }},
				attempt{"delete a ClusterScanType", func(ctx context.Context) error { return c.Delete(ctx, kind()) }})
			starting := attempt{"create a Scan", func(ctx context.Context) error { return c.Create(ctx, scans.New(ns, m.user, "none")) }}
			if m.title == "`view`" {
				wantForbidden(ctx, m.user, starting)
				continue
			}
			wantAllowed(ctx, m.user, starting)
		}
	})
})

// aggregated waits until view, edit and admin have taken in the chart's roles.
func aggregated(ctx context.Context, members []who) {
	GinkgoHelper()
	for _, m := range members {
		wantAccess(ctx, m.user, &authorizationv1.ResourceAttributes{
			Namespace: strings.TrimSuffix(m.user, "-"+strings.Trim(m.title, "`")), Verb: "list", Group: settingsGroup, Version: "v1alpha2", Resource: "scansettings",
		}, true)
	}
}

// sideBySide joins tables of one column each.
func sideBySide(tables ...[][]string) [][]string {
	rows := [][]string{{""}}
	for _, table := range tables {
		rows[0] = append(rows[0], table[0][1])
	}
	for _, r := range things {
		row := []string{"`" + r.String() + "`"}
		for _, table := range tables {
			cell := "–"
			for _, have := range table {
				if have[0] == row[0] {
					cell = have[1]
				}
			}
			row = append(row, cell)
		}
		if slices.ContainsFunc(row[1:], func(c string) bool { return c != "–" }) {
			rows = append(rows, row)
		}
	}
	return rows
}

// measuredCharts are those whose ServiceAccounts stand in a table.
var measuredCharts = []string{
	"scanyard", "cascading-scans", "trivy", "persistence-reports", "auto-discovery-kubernetes", "auto-discovery-cloud-aws", "reports", "forwarding", "console",
	"registry-findings", "registry", // the first whose name a rendering begins with counts
}
