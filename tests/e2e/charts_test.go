// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/resultimport"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/scans"
)

func wantObjects(ctx context.Context, namespace string, objects map[string]client.Object) {
	GinkgoHelper()
	for name, o := range objects {
		Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)).To(Succeed(), "%T %s", o, name)
	}
}

// scannerChart says what the chart of scanners, or of parsers alone, makes.
type scannerChart struct {
	scanTypes   []string
	resultTypes []string
	// listed reads the ScanTypes from the chart when a spec runs; nil: they are scanTypes. The program of the specs runs in containers,
	// too, where there are no charts.
	listed func() []string
	// rules is how many cascading rules it has.
	rules int
	// notWide are ScanTypes that there are only in one namespace.
	notWide []string
}

// scannerCharts are the charts of all scanners and parsers. Each other chart is one of
// a hook, which it makes under its own name.
var scannerCharts = map[string]scannerChart{
	"testssl":           {scanTypes: []string{"testssl"}, resultTypes: []string{"testssl-json"}},
	"grype":             {scanTypes: []string{"grype"}, resultTypes: []string{"grype-json"}},
	"trufflehog":        {scanTypes: []string{"trufflehog"}, resultTypes: []string{"trufflehog-jsonl"}},
	"checkov":           {scanTypes: []string{"checkov"}, resultTypes: []string{"checkov-json"}},
	"kubescape":         {scanTypes: []string{"kubescape"}, resultTypes: []string{"kubescape-json"}},
	"osv-scanner":       {scanTypes: []string{"osv-scanner"}, resultTypes: []string{"osv-scanner-json"}},
	"ffuf":              {scanTypes: []string{"ffuf"}, resultTypes: []string{"ffuf-json"}, rules: 1},
	"git-repo-scanner":  {scanTypes: []string{"git-repo-scanner"}, resultTypes: []string{"git-repo-scanner-json"}},
	"gitleaks":          {scanTypes: []string{"gitleaks"}, resultTypes: []string{"gitleaks-json"}},
	"import":            {listed: importTypes},
	"registry-findings": {scanTypes: []string{"registry-findings"}, resultTypes: []string{"registry-json"}},
	"kube-hunter":       {scanTypes: []string{"kube-hunter"}, resultTypes: []string{"kube-hunter-json"}, rules: 2},
	"ncrack":            {scanTypes: []string{"ncrack"}, resultTypes: []string{"ncrack-xml"}, rules: 9},
	"nikto":             {scanTypes: []string{"nikto"}, resultTypes: []string{"nikto-json"}, rules: 1},
	"nmap":              {scanTypes: []string{"nmap"}, resultTypes: []string{"nmap-xml"}, rules: 2},
	"nuclei":            {scanTypes: []string{"nuclei"}, resultTypes: []string{"nuclei-json"}, rules: 2},
	"parse-definitions": {resultTypes: []string{
		"cyclonedx", "junit-xml", "sarif", "spdx",
	}},
	"screenshooter":            {scanTypes: []string{"screenshooter"}, resultTypes: []string{"screenshot-png"}, rules: 2},
	"semgrep":                  {scanTypes: []string{"semgrep"}, resultTypes: []string{"semgrep-json"}},
	"ssh-audit":                {scanTypes: []string{"ssh-audit"}, resultTypes: []string{"ssh-audit-json"}, rules: 1},
	"sslyze":                   {scanTypes: []string{"sslyze"}, resultTypes: []string{"sslyze-json"}, rules: 6},
	"subfinder":                {scanTypes: []string{"subfinder"}, resultTypes: []string{"subfinder-json"}},
	"test-scan":                {scanTypes: []string{"test-scan"}, resultTypes: []string{"test-txt"}},
	"trivy":                    {scanTypes: []string{"trivy-image", "trivy-filesystem", "trivy-repo", "trivy-k8s"}, resultTypes: []string{"trivy-json"}, notWide: []string{"trivy-k8s"}},
	"trivy-sbom":               {scanTypes: []string{"trivy-sbom-image"}, resultTypes: []string{"sbom-cyclonedx"}},
	"whatweb":                  {scanTypes: []string{"whatweb"}, resultTypes: []string{"whatweb-json"}, rules: 1},
	"wpscan":                   {scanTypes: []string{"wpscan"}, resultTypes: []string{"wpscan-json"}},
	"zap-automation-framework": {scanTypes: []string{"zap-automation-framework"}, resultTypes: []string{"zap-xml"}, rules: 2},
}

// importTypes are the ScanTypes of the chart import: one for each result type of its values.
func importTypes() []string {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join(cmp.Or(os.Getenv("SCANYARD_CHARTS"), "../../charts"), "import", "values.yaml"))
	values := struct{ ResultTypes []string }{}
	if err == nil {
		err = yaml.Unmarshal(raw, &values)
	}
	Expect(err).NotTo(HaveOccurred())
	for i, name := range values.ResultTypes {
		values.ResultTypes[i] = resultimport.TypePrefix + name
	}
	return values.ResultTypes
}

// everyChart lists the charts of the repository but the operator's, which all tests
// use, and those of auto-discovery, of the reports API server and of forwarding, which
// install no kinds of ours and have tests of their own.
func everyChart() []string {
	all, err := install.Charts(cmp.Or(os.Getenv("SCANYARD_CHARTS"), "../../charts"))
	if err != nil {
		panic(err) // there is no spec yet that could fail
	}
	return slices.DeleteFunc(all, func(name string) bool {
		return slices.Contains([]string{"scanyard", "reports", "forwarding", "registry", "console"}, name) || strings.HasPrefix(name, "auto-discovery")
	})
}

// types are the names of the chart's ScanTypes.
func (c scannerChart) types() []string {
	if c.listed != nil {
		return c.listed()
	}
	return c.scanTypes
}

// objects are those of one namespace, or of the cluster.
func (c scannerChart) objects(wide bool) map[string]client.Object {
	out := map[string]client.Object{}
	for _, name := range c.resultTypes {
		if out[name] = client.Object(&executionv1.ParseDefinition{}); wide {
			out[name] = &executionv1.ClusterParseDefinition{}
		}
	}
	for _, name := range c.types() {
		switch {
		case !wide:
			out[name] = &executionv1.ScanType{}
		case !slices.Contains(c.notWide, name):
			out[name] = &executionv1.ClusterScanType{}
		}
	}
	return out
}

var _ = Describe("Charts", Label("charts"), func() {
	Describe("install into a namespace", func() {
		for _, name := range everyChart() {
			It(name, func(ctx SpecContext) {
				ns := namespace(ctx)
				if c, ok := scannerCharts[name]; ok {
					values := map[string]any{}
					if c.rules > 0 {
						values["cascadingRules"] = map[string]any{"enabled": true}
					}
					chart(ctx, name, ns, values)
					wantObjects(ctx, ns, c.objects(false))
					wantRules(ctx, ns, c.rules)
				} else {
					chart(ctx, name, ns, nil)
					wantObjects(ctx, ns, map[string]client.Object{name: &executionv1.ScanCompletionHook{}})
				}
				Expect(w.helm.Uninstall(ctx, name, ns)).To(Succeed())
			})
		}
	})

	It("install for the whole cluster", func(ctx SpecContext) {
		clusterCharts(ctx)
		for name, c := range scannerCharts {
			Expect(everyChart()).To(ContainElement(name))
			wantObjects(ctx, "", c.objects(true))
		}
		webhook, update := &executionv1.ClusterScanCompletionHook{}, &executionv1.ClusterScanCompletionHook{}
		wantObjects(ctx, "", map[string]client.Object{clusterWebhook: webhook, clusterUpdate: update})
		if webhook.Spec.ExecutionNamespace != clusterNamespace || update.Spec.ExecutionNamespace != "" {
			Fail(fmt.Sprintf("executionNamespaces %q and %q", webhook.Spec.ExecutionNamespace, update.Spec.ExecutionNamespace))
		}
	})

	Describe("refuse values that cannot work, and say what to set", func() {
		configMap := []any{map[string]any{"name": "rules", "configMap": map[string]any{"name": "rules"}}}
		cases := map[string]struct {
			chart  string
			values map[string]any
			says   []string
		}{
			"ConfigMapOfScanner": {
				"nmap",
				map[string]any{"clusterWide": true, "scanner": map[string]any{"extraVolumes": configMap}},
				[]string{"clusterWide is true, but scanner.env or scanner.extraVolumes reads a ConfigMap", "--set clusterWide=false"},
			},
			"ConfigMapOfHook": {
				"generic-webhook",
				map[string]any{"clusterWide": true, "hook": map[string]any{"extraVolumes": configMap}},
				[]string{"reads a ConfigMap", "--set executionNamespace="},
			},
			"OtherExecutionNamespace": {
				"generic-webhook",
				map[string]any{"clusterWide": true, "executionNamespace": "elsewhere"},
				[]string{"executionNamespace is elsewhere, but the release is installed into", "leave executionNamespace empty"},
			},
			"ExecutionNamespaceOfOneNamespace": {
				"update-field",
				map[string]any{"executionNamespace": "elsewhere"},
				[]string{"clusterWide is false", "--set clusterWide=true"},
			},
		}
		for name, tc := range inOrder(cases) {
			It(name, func(ctx SpecContext) {
				err := w.helm.Install(ctx, install.Release{Name: "refused", Chart: tc.chart, Namespace: "e2e-refused", Values: tc.values})
				Expect(err).To(HaveOccurred(), "it was installed")
				for _, part := range tc.says {
					Expect(err.Error()).To(ContainSubstring(part), "the refusal does not say %q:\n%v", part, err)
				}
			})
		}
	})

	It("give Kubernetes' own roles their rights over our kinds", func(ctx SpecContext) {
		ns := namespace(ctx)
		for _, role := range []string{"view", "edit", "admin"} {
			create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: role},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: ns + "-" + role}},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			})
		}
		const exec, casc = "execution.securecodebox.io", "cascading.securecodebox.io"
		cases := []struct {
			name                      string
			who                       []string
			verbs, groups, kinds, sub string
			inNamespace, want         bool
		}{
			{"ViewersRead", []string{"view", "edit", "admin"}, "get list watch", exec, "scans scheduledscans scantypes parsedefinitions scancompletionhooks", "", true, true},
			{"ViewersReadRules", []string{"view", "edit", "admin"}, "get list watch", casc, "cascadingrules", "", true, true},
			{"ViewersDoNotWrite", []string{"view", "nobody"}, "create update patch delete", exec, "scans scheduledscans scantypes parsedefinitions scancompletionhooks", "", true, false},
			{"EditorsWrite", []string{"edit", "admin"}, "create update patch delete", exec, "scans scheduledscans scantypes parsedefinitions scancompletionhooks", "", true, true},
			{"NobodyWritesStatus", []string{"view", "edit", "admin", "nobody"}, "update patch", exec, "scans", "status", true, false},
			{"OthersReadNothing", []string{"nobody"}, "get list", exec, "scans", "", true, false},
			{"EverybodyReadsClusterKinds", []string{"view", "edit", "admin", "nobody"}, "get list watch", exec, "clusterscantypes clusterparsedefinitions clusterscancompletionhooks", "", false, true},
			{"EverybodyReadsClusterRules", []string{"nobody"}, "get list watch", casc, "clustercascadingrules", "", false, true},
			{"OnlyClusterAdminsWriteClusterKinds", []string{"view", "edit", "admin", "nobody"}, "create update patch delete", exec, "clusterscantypes clusterparsedefinitions clusterscancompletionhooks", "", false, false},
			{"OnlyClusterAdminsWriteClusterRules", []string{"view", "edit", "admin", "nobody"}, "create update patch delete", casc, "clustercascadingrules", "", false, false},
		}
		for _, tc := range cases {
			By(tc.name, func() {
				for _, who := range tc.who {
					for verb := range strings.FieldsSeq(tc.verbs) {
						for kind := range strings.FieldsSeq(tc.kinds) {
							a := &authorizationv1.ResourceAttributes{Verb: verb, Group: tc.groups, Resource: kind, Subresource: tc.sub}
							if tc.inNamespace {
								a.Namespace = ns
							}
							wantAccess(ctx, ns+"-"+who, a, tc.want)
						}
					}
				}
			})
		}
	})

	It("let editors write in their namespace, and not beyond it", func(ctx SpecContext) {
		ns := namespace(ctx)
		editor := ns + "-editor"
		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "edit"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: editor}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		})
		c, err := scans.Connect(scans.As(w.config, editor, "system:authenticated"))
		Expect(err).NotTo(HaveOccurred())
		eventually(ctx, "the editor to create a Scan", func(ctx context.Context) (bool, error) {
			err := c.Create(ctx, scans.New(ns, "mine", "nothing"))
			return err == nil, client.IgnoreNotFound(ignoreForbidden(err))
		})
		wide := &executionv1.ClusterScanType{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: shellSpec("test-txt")}
		if err := c.Create(ctx, wide); !apierrors.IsForbidden(err) {
			Fail(fmt.Sprintf("an editor creates a ClusterScanType: %v, want Forbidden", err))
		}
		Expect(c.List(ctx, &executionv1.ClusterScanTypeList{})).To(Succeed(), "an editor lists ClusterScanTypes")
		if err := c.List(ctx, &executionv1.ScanList{}, client.InNamespace("default")); !apierrors.IsForbidden(err) {
			Fail(fmt.Sprintf("an editor of one namespace reads Scans of another: %v, want Forbidden", err))
		}
	})

	// Runs a clusterWide Scan with no more
	// rights than the chart ships, while Scans of others go on.
	It("bring all rights that clusterWide Scans need", defect(1), func(ctx SpecContext) {
		clusterCharts(ctx)
		ns, other := namespace(ctx), namespace(ctx)
		chart(ctx, "test-scan", other, nil)
		wide, local := onlyHooks(scans.NewClusterWide(ns, "wide", "test-scan"), ""), scans.New(other, "local", "test-scan")
		create(ctx, wide, local)
		wantDone(ctx, wide)
		wantDone(ctx, local)
		logs, err := w.op.Logs(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(complaints(logs)).To(Succeed())
	})

	It("work where the restricted Pod Security level is enforced", defect(51), func(ctx SpecContext) {
		ns := namespace(ctx, "pod-security.kubernetes.io/enforce=restricted")
		chart(ctx, "nmap", ns, nil)
		chart(ctx, "update-field", ns, nil)
		chart(ctx, "generic-webhook", ns, map[string]any{"webhookUrl": w.hooks.URL("/" + ns)})
		got := done(ctx, scans.New(ns, "restricted", "nmap", "-p", "1", "127.0.0.1"))
		wantJobs(got, "scanner", "read-and-write-hook/update-field", "read-only-hook/generic-webhook") // the parser runs in the scanner's pod
		Expect(delivered(ctx, "/"+ns)).To(HaveLen(1), "calls of the hook")
		Expect(podsOf(ctx, ns)).To(HaveLen(3), "pods that ran")
	})
})

func wantRules(ctx context.Context, namespace string, n int) {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cascading.securecodebox.io", Version: "v1", Kind: "CascadingRuleList"})
	Expect(w.admin.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	Expect(list.Items).To(HaveLen(n), "%d cascading rules, want %d", len(list.Items), n)
}

// clusterNamespace is where they are installed, and where their hooks run.
const clusterNamespace = "e2e-cluster-admin"

const (
	clusterWebhook = "e2e-cluster-webhook" // runs in clusterNamespace
	clusterUpdate  = "e2e-cluster-update"  // runs in the namespace of the Scan
)

// clusterCharts are installed once for all specs that need them: names of Cluster* objects
// are taken once per cluster.
func clusterCharts(ctx context.Context) {
	GinkgoHelper()
	onceForAll("cluster-charts", func() (string, error) {
		wide := map[string]any{"clusterWide": true}
		var releases []install.Release
		for name := range scannerCharts {
			releases = append(releases, install.Release{Chart: name, Values: wide})
		}
		releases = append(releases,
			install.Release{Chart: "generic-webhook", Name: clusterWebhook, Values: map[string]any{
				"clusterWide": true, "executionNamespace": clusterNamespace, "webhookUrl": w.hooks.URL("/cluster"), "fullnameOverride": clusterWebhook,
				// As an image of others, which needs access to the Scan from there.
				"hook": map[string]any{"scanAccess": "API"},
			}},
			install.Release{Chart: "update-field", Name: clusterUpdate, Values: map[string]any{
				"clusterWide": true, "fullnameOverride": clusterUpdate, "attribute": map[string]any{"name": "category", "value": "renamed"},
			}})
		return "", installTogether(ctx, releases)
	})
}

// installTogether installs releases, some at a time; those without a namespace for the
// whole cluster.
func installTogether(ctx context.Context, releases []install.Release) error {
	const together = 4
	var g errgroup.Group
	g.SetLimit(together)
	for _, r := range releases {
		r.Namespace = cmp.Or(r.Namespace, clusterNamespace)
		g.Go(func() error { return w.helm.Install(ctx, r) })
	}
	return g.Wait()
}

// wantAccess waits for the answer: roles are aggregated a moment after they are made.
func wantAccess(ctx context.Context, user string, a *authorizationv1.ResourceAttributes, want bool) {
	GinkgoHelper()
	eventually(ctx, "the answer whether "+user+" may "+a.Verb+" "+a.Resource, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: a,
		}}
		err := w.admin.Create(ctx, review)
		return review.Status.Allowed == want, err
	})
}

func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}
