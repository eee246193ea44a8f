// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

// recordedCase is a Scan whose scanner is a stand-in.
type recordedCase struct {
	name, chart, scanType string
	values                map[string]any
	// command are the arguments that the chart gives to the scanner, and parameters
	// those of the Scan, which follow them.
	command, parameters string
	// raw is the recorded result, below the folder of the parsers. What comes of it
	// lies beside it.
	raw string
	// location is the result's name in object storage.
	location string
	// nothing says that no findings come of it.
	nothing bool
	prepare func(*executionv1.Scan)
}

const fixtures = "testdata/fixtures/"

var recordedCases = []recordedCase{
	{
		name: "kube-hunter", command: "--report json", parameters: "--remote 192.0.2.1",
		raw: "kubehunter/testdata/report.raw.json", location: "kube-hunter-results.json",
	},
	{
		name: "nikto", command: "-o FILE", parameters: "-host https://docs.securecodebox.io -Tuning 1,2,3,5,7,b",
		raw: fixtures + "nikto/docs.securecodebox.io.raw.json", location: "nikto-results.json",
	},
	{
		name: "nuclei", values: map[string]any{"nucleiTemplateCache": map[string]any{"enabled": false}},
		command: "-jsonl -output FILE", parameters: "-u https://example.com",
		raw: fixtures + "nuclei/example-com-test.raw.jsonl", location: "nuclei-results.jsonl",
	},
	{
		name: "nuclei-log4shell", chart: "nuclei", scanType: "nuclei", values: map[string]any{"nucleiTemplateCache": map[string]any{"enabled": false}},
		command: "-jsonl -output FILE", parameters: "-u http://vulnerable-log4j.default.svc:8080",
		raw: fixtures + "nuclei/log4shell.raw.jsonl", location: "nuclei-results.jsonl",
	},
	{
		name: "semgrep", command: "--json -o FILE", parameters: "-c p/ci /repo",
		raw: fixtures + "semgrep/python-injection.raw.json", location: "semgrep-results.json",
	},
	{
		name: "sslyze", command: "--json_out FILE", parameters: "--mozilla_config=intermediate expired.badssl.com",
		raw: fixtures + "sslyze/expired.badssl.com.raw.json", location: "sslyze-results.json",
	},
	{
		name: "subfinder", command: "-json -output FILE", parameters: "-d example.com -active -ip",
		raw: fixtures + "subfinder/active_scan_with_ip_example.com.raw.jsonl", location: "subfinder-results.jsonl",
	},
	{
		name: "subfinder-with-target-domain", chart: "subfinder", scanType: "subfinder", values: map[string]any{"includeTargetDomain": true},
		command: "-json -output FILE", parameters: "-timeout 1 -d example.com",
		raw: fixtures + "subfinder/passive_scan_without_ip_example.com__include-d.raw.jsonl", location: "subfinder-results.jsonl",
	},
	{
		// The one of this chart here that asks the database which it installs.
		name: "trivy-image", chart: "trivy",
		command: "image --no-progress --server http://trivy-database.NAMESPACE.svc:8080 --format json --output FILE", parameters: "bkimminich/juice-shop:v12.10.2",
		raw: fixtures + "trivy/juice-shop-v12.10.2.raw.json", location: "trivy-results.json",
	},
	{
		name: "trivy-filesystem", chart: "trivy", values: withoutDatabase,
		command: "filesystem --no-progress --format json --output FILE", parameters: "/repo",
		raw: fixtures + "trivy/juice-shop-v12.10.2-no-results.raw.json", location: "trivy-results.json", nothing: true,
	},
	{
		name: "trivy-repo", chart: "trivy", values: withoutDatabase,
		command: "repo --no-progress --format json --output FILE", parameters: "https://example.com/shop.git",
		raw: fixtures + "trivy/juice-shop-v12.10.2.raw.json", location: "trivy-results.json",
	},
	{
		name: "trivy-k8s", chart: "trivy", values: withoutDatabase,
		command: "k8s --no-progress --format json --report all --output FILE", parameters: "--include-namespaces default",
		raw: fixtures + "trivy/trivy--k8s-scan-results.raw.json", location: "trivy-results.json",
	},
	{
		name: "trivy-sbom", scanType: "trivy-sbom-image",
		command: "image --no-progress --format cyclonedx --output FILE", parameters: "hello-world:latest",
		raw: fixtures + "trivy-sbom/inline-minimal.raw.json", location: "sbom-cyclonedx.json",
	},
	{
		name: "wpscan", command: "-o FILE -f json", parameters: "--url http://wordpress.example -e vp",
		raw: fixtures + "wpscan/example-latest.raw.json", location: "wpscan-results.json",
	},
	{
		name: "zap-automation-framework", command: "-cmd", parameters: "-autorun " + zapPlan,
		raw: fixtures + "zap-automation-framework/juice-shop.raw.xml", location: "zap-results.xml", prepare: baselinePlan,
	},
	{
		name: "zap-automation-framework-small", chart: "zap-automation-framework", scanType: "zap-automation-framework",
		command: "-cmd", parameters: "-autorun " + zapPlan,
		raw: fixtures + "zap-automation-framework/example.com.raw.xml", location: "zap-results.xml", prepare: baselinePlan,
	},
}

var withoutDatabase = map[string]any{"trivyDatabaseCache": map[string]any{"enabled": false}}

// zapPlan is where the start script of the chart expects a plan.
const zapPlan = "/home/securecodebox/scb-automation/automation.yaml"

// baselinePlan mounts the plan of the chart, as its cascading rules do.
func baselinePlan(s *executionv1.Scan) {
	const name = "zap-automation-framework-baseline-config"
	s.Spec.Volumes = []corev1.Volume{{Name: name, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}}}
	s.Spec.VolumeMounts = []corev1.VolumeMount{{Name: name, MountPath: zapPlan, SubPath: "automation.yaml"}}
	s.Spec.Env = append(s.Spec.Env, corev1.EnvVar{Name: "TARGET_URL", Value: "http://shop.example"})
}

// complete fills in what follows from the name.
func (c recordedCase) complete() recordedCase {
	if c.scanType == "" {
		c.scanType = c.name
	}
	if c.chart == "" {
		c.chart = c.name
	}
	return c
}

// scan builds the Scan. charts is the namespace that the chart is installed in.
func (c recordedCase) scan(namespace, charts string) *executionv1.Scan {
	GinkgoHelper()
	s := scans.New(namespace, c.name, c.scanType, strings.Fields(c.parameters)...)
	arguments, err := json.Marshal(slices.Concat(strings.Fields(strings.ReplaceAll(c.command, "NAMESPACE", charts)), s.Spec.Parameters))
	Expect(err).NotTo(HaveOccurred())
	s.Spec.Env = []corev1.EnvVar{{Name: envRaw, Value: filepath.Join(recordedFolder, c.raw)}, {Name: envArguments, Value: string(arguments)}}
	return s
}

var _ = Describe("Recorded scanners", Label("scanners"), func() {
	// Runs the scanners whose programs are not here: from the chart's command
	// to the findings all is real but the scanner, which a stand-in plays from a recording.
	Describe("give the recorded findings from the chart's command to storage", func() {
		for _, c := range recordedCases {
			c := c.complete()
			It(c.name, func(ctx SpecContext) {
				ns := namespace(ctx)
				chart(ctx, c.chart, ns, c.values)
				s := c.scan(ns, ns)
				if c.prepare != nil {
					c.prepare(s)
				}
				got := done(ctx, s)
				wantStats(got, findings(ctx, got))
				wantRecorded(ctx, got, c)
			})
		}
	})

	Describe("give them in a namespace in which nothing is installed", func() {
		names := []string{"trivy-image", "zap-automation-framework"}
		for _, c := range recordedCases {
			c := c.complete()
			if !slices.Contains(names, c.name) {
				continue
			}
			It(c.name, func(ctx SpecContext) {
				clusterCharts(ctx)
				ns := namespace(ctx)
				s := onlyHooks(c.scan(ns, clusterNamespace), "")
				mode := executionv1.ClusterWide
				s.Spec.ResourceMode = &mode
				// The ScanType brings the plan of ZAP.
				s.Spec.Env = append(s.Spec.Env, corev1.EnvVar{Name: "TARGET_URL", Value: "http://shop.example"})
				wantRecorded(ctx, done(ctx, s), c)
			})
		}
	})

	// Shows that the cases above would notice a command that writes
	// to another place than the ScanType says.
	It("fail where the command writes to another place than the ScanType says", func(ctx SpecContext) {
		i := slices.IndexFunc(recordedCases, func(c recordedCase) bool { return c.name == "semgrep" })
		c, ns := recordedCases[i].complete(), namespace(ctx)
		chart(ctx, c.chart, ns, nil)
		kind := &executionv1.ScanType{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: c.scanType}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"extractResults":{"location":"/home/securecodebox/elsewhere.json"}}}`))
		Expect(w.admin.Patch(ctx, kind, patch)).To(Succeed())
		got := errored(ctx, c.scan(ns, ns), executionv1.ReasonScannerFailed, "wrote no /home/securecodebox/elsewhere.json")
		wantStored(ctx, got)
	})
})

// wantRecorded holds what storage has against the recording: the raw result byte for
// byte, and the findings but for what is added to every finding.
func wantRecorded(ctx context.Context, s *executionv1.Scan, c recordedCase) {
	GinkgoHelper()
	raw := recordedFile(c.raw)
	wantStored(ctx, s, "findings.json", c.location)
	if got := object(ctx, s, c.location); string(got) != string(raw) {
		Fail(fmt.Sprintf("the stored result has %d bytes and differs from the recording, which has %d", len(got), len(raw)))
	}
	base, _, _ := strings.Cut(c.raw, ".raw.")
	var want, got []map[string]any
	decode(recordedFile(base+".expected.json"), &want)
	decode(object(ctx, s, "findings.json"), &got)
	for _, f := range want {
		// A recording has a link of its own time.
		if a, ok := f["attributes"].(map[string]any); ok && a["downloadLink"] != nil {
			a["downloadLink"] = s.Status.RawResultDownloadLink
		}
	}
	for _, f := range got {
		for _, key := range []string{"id", "parsed_at", "scan"} {
			Expect(f[key]).NotTo(BeNil(), "a finding has no %s", key)
			delete(f, key)
		}
		delete(f, "fingerprint")
	}
	if len(want) == 0 && !c.nothing {
		Fail("the recording has no findings")
	}
	Expect(got).To(BeComparableTo(want), "findings (-want +got)")
}

func recordedFile(name string) []byte {
	GinkgoHelper()
	b, err := os.ReadFile(filepath.Join(w.tools.Parsers, name))
	Expect(err).NotTo(HaveOccurred())
	return b
}

func decode(b []byte, into any) {
	GinkgoHelper()
	Expect(json.Unmarshal(b, into)).To(Succeed())
}

// object reads what storage has for a Scan.
func object(ctx context.Context, s *executionv1.Scan, name string) []byte {
	GinkgoHelper()
	o, err := w.store.GetObject(ctx, w.bucket, prefix(s)+name, minio.GetObjectOptions{})
	Expect(err).NotTo(HaveOccurred())
	b, err := io.ReadAll(o)
	if err == nil {
		err = o.Close()
	}
	Expect(err).NotTo(HaveOccurred(), "read object %s", name)
	return b
}
