// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/tests/browser"
	"github.com/scanyard/scanyard/tests/database"
	"github.com/scanyard/scanyard/tests/reportsapi"
)

// store is the reports API server, which the first test that needs it starts. Those before see a cluster without it.
var store struct {
	once   sync.Once
	err    error
	client client.Client
	stop   func()
}

// withReports starts the reports API server beside the cluster.
func (w *world) withReports(t *testing.T) client.Client {
	t.Helper()
	store.once.Do(func() { store.err = w.startReports() })
	if store.err != nil {
		t.Fatal(store.err)
	}
	return store.client
}

func (w *world) startReports() error {
	ctx := context.Background() // it lasts longer than the test that starts it
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), reportsv1alpha1.AddToScheme(scheme), wgpolicyv1alpha2.AddToScheme(scheme), registryv1alpha1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	if store.client, err = client.New(w.cluster.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	const namespace = "reports-system"
	if err := store.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	if err := w.cluster.InstallRegistryCRDs(ctx); err != nil {
		return err
	}
	db, err := databaseOf(ctx, os.Getenv("DATABASE"))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "scanyard-reports-")
	if err != nil {
		return err
	}
	server, err := reportsapi.Start(ctx, reportsapi.Options{
		Binary: filepath.Join(cmp.Or(os.Getenv("SCANYARD_BIN"), "../../bin"), "reports-apiserver"), Dir: dir, Kubeconfig: w.cluster.Kubeconfig(),
		Client: store.client, Namespace: namespace, Database: db,
	})
	if err != nil {
		if db != nil {
			err = errors.Join(err, db.Stop())
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	store.stop = func() {
		server.Stop()
		if db != nil {
			_ = db.Stop() // so is what it leaves
		}
		_ = os.RemoveAll(dir) // a folder of this machine's temporary ones
	}
	return reportsapi.Served(ctx, store.client)
}

// databaseOf starts the database that the reports API server is tried with; nil is SQLite.
func databaseOf(ctx context.Context, name string) (*database.Server, error) {
	switch name {
	case "", "sqlite":
		return nil, nil
	case "postgresql":
		return database.PostgreSQL(ctx)
	}
	return nil, fmt.Errorf("DATABASE is %q, must be sqlite or postgresql", name)
}

// words says what foreign texts are: what people expect, or something hostile.
type words func(text string) string

func plainly(text string) string { return text }

// known are the findings that scans have.
var known = []struct{ rule, category, severity, policy, location string }{
	{"Outdated OpenSSL", "Vulnerability", "critical", "CVE-2024-5535", "https://shop.example/"},
	{"SQL injection in the login", "Vulnerability", "high", "CWE-89", "https://shop.example/login"},
	{"Hard-coded credential", "Secret", "high", "generic-api-key", "src/config.go"},
	{"TLS 1.0 is offered", "TLS", "medium", "tls-version", "https://mail.example:993"},
	{"Content-Security-Policy is missing", "HTTP Header", "medium", "CWE-693", "https://shop.example/"},
	{"Directory listing", "Vulnerability", "low", "CWE-548", "https://wiki.example/files/"},
	{"Open port 22", "Open Port", "info", "open-port", "tcp://10.0.0.7:22"},
}

// fill gives a namespace something of everything that pages show.
func (w *world) fill(t *testing.T, ns string, say words) {
	t.Helper()
	c := w.withReports(t)
	create := func(o client.Object) {
		t.Helper()
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	status := func(o client.Object) {
		t.Helper()
		if err := c.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.create(t, schedule(ns, "nightly"))
	for j, name := range []string{"shop", "mail", "wiki"} {
		s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		s.Spec.ScanType, s.Spec.Parameters = "nmap", []string{"-sV", say(name + ".example")}
		if name == "wiki" {
			s.Annotations = map[string]string{"cascading.securecodebox.io/parent-scan": "shop"}
		}
		w.create(t, s)
		var findings []map[string]any
		r := &wgpolicyv1alpha2.PolicyReport{ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name + "-00", Labels: map[string]string{"scanyard.io/scan": name, "scanyard.io/chunk": "00"},
			Annotations: map[string]string{"scanyard.io/run": "1", "scanyard.io/chunks": "1"},
		}}
		for i, k := range known {
			if i%3 == (j+1)%3 {
				continue
			}
			f := finding(k.rule, strings.ToUpper(map[string]string{"critical": "high", "info": "informational"}[k.severity]))
			if f["severity"] == "" {
				f["severity"] = strings.ToUpper(k.severity)
			}
			for key, value := range map[string]string{"name": k.rule, "description": "What " + k.rule + " is.", "location": k.location, "category": k.category, "mitigation": "Update it."} {
				f[key] = say(value)
			}
			f["attributes"] = map[string]any{say("port"): []any{say("443")}}
			findings = append(findings, f)
			r.Results = append(r.Results, wgpolicyv1alpha2.PolicyReportResult{
				Source: "scanyard/nmap", Policy: new(say(k.policy)), Rule: say(k.rule), Category: say(k.category), Severity: wgpolicyv1alpha2.Severity(k.severity), Result: "fail",
				Message: say(k.rule + " at " + k.location), Properties: map[string]string{"id": f["id"].(string), "location": say(k.location), "attr.port": say("443"), "references": say("CVE-2024-5535")},
			})
		}
		w.found(t, s, findings...)
		create(r)
	}
	foreign := &wgpolicyv1alpha2.PolicyReport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "labels"}}
	for i, result := range []wgpolicyv1alpha2.Result{"pass", "pass", "fail"} {
		foreign.Results = append(foreign.Results, wgpolicyv1alpha2.PolicyReportResult{
			Source: "kyverno", Policy: new(say("require-labels")), Rule: say(fmt.Sprintf("label-%d", i)), Severity: "high", Result: result, Message: say("A label is needed."),
		})
	}
	create(foreign)
	w.scan(t, ns, "office", running)
	w.scan(t, ns, "queued", waiting)
	w.scan(t, ns, "broken", failed(say("The scanner ended with exit code 1: no route to host broken.example")))
	accepted := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "accepted"}}
	accepted.Spec.Status, accepted.Spec.Reason = settingsv1alpha2.ExceptionFalsePositive, say("The scanner takes the old banner for the version.")
	accepted.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Names: []string{say("Directory listing")}}}
	w.create(t, accepted)
	b := board(ns, "monday")
	b.Data["title"], b.Data["description"] = say("Monday"), say("What we look at first")
	b.Data["filters"] = strings.ReplaceAll(say("High"), "\n", " ") + " | /findings?severity=high\nFailed | /scans?state=errored\n"
	w.create(t, b)
	reg := &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prod"}}
	reg.Spec.URL = "https://registry.example"
	create(reg)
	reg.Status.Images = &registryv1alpha1.ImageCounts{Present: 2, Scanned: 1, Failed: 1}
	reg.Status.Conditions = []metav1.Condition{condition(registryv1alpha1.ConditionReachable, metav1.ConditionFalse, registryv1alpha1.ReasonUnauthorized, say("The Secret pull is refused: 401."))}
	status(reg)
	i := &reportsv1alpha1.Image{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "api-1"}}
	i.Spec = reportsv1alpha1.ImageSpec{
		Registry: reportsv1alpha1.RegistryRef{Name: "prod", UID: string(reg.UID), Host: "registry.example"}, Repository: say("shop/api"), Tag: say("1.2"),
		Digest: "sha256:" + strings.Repeat("0a1b2c3d", 8), Platform: "linux/amd64", CompressedBytes: 48 << 20,
	}
	create(i)
	i.Status.Presence, i.Status.State = reportsv1alpha1.ImagePresent, reportsv1alpha1.ImageScanned
	i.Status.Message, i.Status.Vulnerabilities = say("It was scanned."), &reportsv1alpha1.VulnerabilitySummary{Critical: new(int64(0)), High: new(int64(1)), Fixable: new(int64(1))}
	status(i)
	repository := &reportsv1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "repository-1"}}
	repository.Spec = reportsv1alpha1.RepositorySpec{Registry: i.Spec.Registry, Repository: i.Spec.Repository}
	create(repository)
	repository.Status.State, repository.Status.Tags = reportsv1alpha1.RepositoryDone, &reportsv1alpha1.TagCounts{Listed: 7, Selected: 1, Skipped: 6}
	status(repository)
	v := &reportsv1alpha1.VulnerabilityReport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "api-1"}}
	v.Spec.Image, v.Spec.Digest, v.Spec.Repository, v.Spec.Tag = "api-1", i.Spec.Digest, i.Spec.Repository, i.Spec.Tag
	v.Spec.Findings = []reportsv1alpha1.VulnerabilityFinding{{
		VulnerabilityID: say("CVE-2024-5535"), Severity: "HIGH", Package: reportsv1alpha1.VulnerablePackage{Name: say("openssl"), Version: say("3.0.1")},
		FixedVersions: []string{say("3.0.2")}, Title: say("A hole in openssl"), PrimaryURL: say("https://nvd.nist.gov/vuln/detail/CVE-2024-5535"),
	}}
	create(v)
}

// pagesOf are all pages, with what fill has made.
func pagesOf(ns string) []struct{ name, path string } {
	return []struct{ name, path string }{
		{"overview", "/?ns=" + ns},
		{"findings", "/findings?ns=" + ns},
		{"findings-run", "/findings?scan=mail&hide=seen&ns=" + ns},
		{"findings-unnamed", "/findings?target=%28none%29&ns=" + ns},
		{"finding", "/findings/fp-Outdated-OpenSSL?scan=mail&ns=" + ns},
		{"finding-reported", "/findings/reported?report=mail-00&index=0&ns=" + ns},
		{"scans", "/scans?ns=" + ns},
		{"scan", "/scans/" + ns + "/shop"},
		{"scan-failed", "/scans/" + ns + "/broken"},
		{"scan-running", "/scans/" + ns + "/office"},
		{"scan-changes", "/scans/" + ns + "/shop/changes"},
		{"scan-new", "/scans/new?ns=" + ns},
		{"schedules", "/schedules?ns=" + ns},
		{"schedule", "/schedules/" + ns + "/nightly"},
		{"images", "/images?ns=" + ns},
		{"registry", "/registries/" + ns + "/prod"},
		{"image", "/images/" + ns + "/api-1"},
		{"policies", "/policyreports?ns=" + ns},
		{"policies-resource", "/policyreports?by=resource&ns=" + ns},
		{"exceptions", "/exceptions?ns=" + ns},
		{"exception", "/exceptions/" + ns + "/accepted"},
		{"exception-new", "/exceptions/new?ns=" + ns},
		{"import", "/exceptions/import?ns=" + ns},
		{"teams", "/teams?ns=" + ns},
		{"team", "/teams/" + ns},
		{"boards", "/boards?ns=" + ns},
		{"board", "/boards/" + ns + "/monday"},
		{"search", "/search?q=shop&ns=" + ns},
	}
}

// TestLooksWithReports shows each page with all that it can show, on a small and on a usual screen, light and dark.
func TestLooksWithReports(t *testing.T) {
	ns := w.namespace(t, "filled")
	w.fill(t, ns, plainly)
	b := open(t)
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 1440} {
			b.Screen(theme, width)
			for _, p := range pagesOf(ns) {
				b.Visit(p.path)
				looksWell(b, fmt.Sprintf("%s, %s, %d pixels", p.name, theme, width))
				b.Picture(fmt.Sprintf("reports-%s-%d-%s", p.name, width, theme))
			}
		}
	}
}

// TestWithReports does the main job of pages that the reports API answers, by clicking and by the keyboard.
func TestWithReports(t *testing.T) {
	ns := w.namespace(t, "asked")
	w.fill(t, ns, plainly)
	b := open(t)
	b.Visit("/?ns=" + ns)
	b.Shows("Open findings, 90 days")
	b.Shows("New and fixed, 90 days")
	b.Shows("no target named")
	b.Leads(chromedp.Click(chromedp.CSS(`main a[href*="target=shop.example"]`)))
	if rows := browser.Eval[int](b, `document.querySelectorAll("main tbody tr").length`); rows == 0 {
		t.Errorf("the target leads to no findings: %s", browser.Eval[string](b, "location.href"))
	}
	b.Leads(chromedp.Click(chromedp.CSS("main tbody td.long a")))
	if got := heading(t, b); got != "Outdated OpenSSL" && got != "SQL injection in the login" {
		t.Errorf("the worst finding is %q", got)
	}
	b.Visit("/findings?severity=high&ns=" + ns)
	b.Leads(chromedp.Click(chromedp.CSS(`main tbody td.long a`)))
	b.Visit("/policyreports?ns=" + ns)
	b.Shows("CVE-2024-5535")
	b.Visit("/images?ns=" + ns)
	b.Leads(chromedp.Click(chromedp.CSS(`main a[href*="repository=shop"]`)))
	b.Shows("1.2")
	b.Visit("/images/" + ns + "/api-1")
	b.Shows("A hole in openssl")
	b.Visit("/teams?ns=" + ns)
	b.Leads(chromedp.Click(chromedp.CSS("main tbody a")))
	b.Shows("open findings")
	b.Shows("Checks that passed, 90 days")
	b.Visit("/scans/" + ns + "/wiki")
	b.Shows("Cascade")
	b.Leads(chromedp.Click(chromedp.CSS(`main ul.cascade a[href$="/shop"]`)))
	b.Leads(chromedp.Click(chromedp.CSS(`main a[href*="scan=shop"]`)))
	b.Shows("of the run shop")
	b.Do(chromedp.KeyEvent("/"), chromedp.SetValue(chromedp.CSS("#search"), "CVE-2024-5535"))
	b.Leads(chromedp.KeyEvent(kb.Enter))
	b.Leads(chromedp.Click(chromedp.CSS("main p.chips a.main")))
	b.Shows("api")
	b.Visit("/findings?" + url.Values{"ns": {ns}, "target": {"10.0.0.7"}}.Encode())
	b.Shows("Open port 22")
}

// pictured are the pages that docs/console.md shows.
var pictured = map[string]bool{"overview": true, "findings": true, "finding": true, "scan": true, "images": true, "teams": true, "exceptions": true}

// TestPictures makes the pictures of docs/console.md.
func TestPictures(t *testing.T) {
	folder := os.Getenv("PICTURES")
	if folder == "" {
		t.Skip(`PICTURES names no folder: "make pictures" does`)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	w.create(t, ns)
	w.fill(t, ns.Name, plainly)
	b := open(t)
	b.Screen("light", 1440)
	for _, p := range pagesOf(ns.Name) {
		if !pictured[p.name] {
			continue
		}
		b.Visit(p.path)
		shot, err := chromedp.Run(b.Ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		if err := small(filepath.Join(folder, "console-"+p.name+".png"), shot); err != nil {
			t.Fatal(err)
		}
	}
}

// highest is how many pixels of a page a picture shows.
const highest = 900

// small writes the upper part of a picture, packed as well as it can be.
func small(file string, shot []byte) error {
	whole, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		return err
	}
	part, ok := whole.(interface {
		SubImage(r image.Rectangle) image.Image
	})
	if !ok {
		return fmt.Errorf("%T has no parts", whole)
	}
	bounds := whole.Bounds()
	bounds.Max.Y = min(bounds.Max.Y, bounds.Min.Y+highest)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, part.SubImage(bounds)); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}
