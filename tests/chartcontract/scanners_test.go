// SPDX-License-Identifier: Apache-2.0

package chartcontract

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// scanner is what the contract says about one ScanType. Users' Scans, findings and
// values files depend on every word of it.
type scanner struct {
	Name, Image    string
	Command        string // FILE stands for the result file
	Result, File   string
	Restart        corev1.RestartPolicy
	BackoffLimit   int32 // -1: none, so that Kubernetes' own limit holds
	NonRoot, ROFS  bool
	ServiceAccount string
}

const (
	onFailure = corev1.RestartPolicyOnFailure
	never     = corev1.RestartPolicyNever
	trivy     = "docker.io/aquasec/trivy:0.73.0"
	server    = "--server http://trivy-database.team.svc:8080 "
)

// scanners are the ScanTypes by rendering.
var scanners = map[string][]scanner{
	"checkov":          {{"checkov", "docker.io/bridgecrew/checkov:3.2.334", `sh -c checkov --output json --soft-fail "$@" > FILE checkov`, "checkov-json", "checkov-results.json", onFailure, 3, false, false, ""}},
	"grype":            {{"grype", "docker.io/anchore/grype:v0.120.0", "/grype --output json --file FILE", "grype-json", "grype-results.json", onFailure, 3, false, false, ""}},
	"kubescape":        {{"kubescape", "quay.io/kubescape/kubescape-cli:v3.0.48", "kubescape scan --format json --output FILE", "kubescape-json", "kubescape-results.json", onFailure, 3, true, false, ""}},
	"osv-scanner":      {{"osv-scanner", "ghcr.io/google/osv-scanner:v2.6.0", `sh -c /osv-scanner scan "$@" --format json > FILE || [ $? -eq 1 ] osv-scanner`, "osv-scanner-json", "osv-scanner-results.json", onFailure, 3, false, false, ""}},
	"testssl":          {{"testssl", "docker.io/drwetter/testssl.sh:3.2", `sh -c rm -f FILE; testssl.sh --quiet --warnings off --color 0 --jsonfile FILE "$@" || [ $? -lt 242 ] testssl.sh`, "testssl-json", "testssl-results.json", onFailure, 3, true, false, ""}},
	"trufflehog":       {{"trufflehog", "docker.io/trufflesecurity/trufflehog:3.96.0", `sh -c trufflehog --json --no-update "$@" > FILE trufflehog`, "trufflehog-jsonl", "trufflehog-results.jsonl", onFailure, 3, false, false, ""}},
	"ffuf":             {{"ffuf", "docker.io/securecodebox/scanner-ffuf:v2.2.1", "ffuf -o FILE", "ffuf-json", "ffuf-results.json", onFailure, 3, true, true, ""}},
	"git-repo-scanner": {{"git-repo-scanner", "docker.io/securecodebox/scanner-git-repo-scanner:v3.1.0-alpha1", "/git-repo-scanner --file-output /home/securecodebox", "git-repo-scanner-json", "git-repo-scanner-findings.json", onFailure, 3, true, true, ""}},
	"gitleaks":         {{"gitleaks", "docker.io/zricethezav/gitleaks:v8.30.1", "gitleaks --verbose --report-format json --report-path FILE --exit-code 0 detect", "gitleaks-json", "report.json", onFailure, 3, false, true, ""}},
	"kube-hunter":      {{"kube-hunter", "docker.io/securecodebox/scanner-kube-hunter:0.6.8", "sh /wrapper.sh --report json", "kube-hunter-json", "kube-hunter-results.json", never, 3, false, true, ""}},
	"ncrack":           {{"ncrack", "docker.io/securecodebox/scanner-ncrack:0.7", "ncrack -oX FILE", "ncrack-xml", "ncrack-results.xml", onFailure, 3, true, true, ""}},
	"nikto":            {{"nikto", "docker.io/securecodebox/scanner-nikto:2.6.0", "sh /wrapper.sh -o FILE", "nikto-json", "nikto-results.json", never, 3, true, true, ""}},
	"nmap":             {{"nmap", "docker.io/securecodebox/scanner-nmap:7.99-r0", "nmap -oX FILE", "nmap-xml", "nmap-results.xml", onFailure, 3, true, true, ""}},
	"nuclei":           {{"nuclei", "docker.io/projectdiscovery/nuclei:v3.11.0", "nuclei -disable-update-check -jsonl -output FILE", "nuclei-json", "nuclei-results.jsonl", onFailure, 3, false, false, ""}},
	"nuclei-no-cache":  {{"nuclei", "docker.io/projectdiscovery/nuclei:v3.11.0", "nuclei -jsonl -output FILE", "nuclei-json", "nuclei-results.jsonl", onFailure, 3, false, false, ""}},
	"registry-findings": {{
		"registry-findings", "docker.io/scanyard/registry-export:0.1.0", "/registry-export", "registry-json", "registry-findings.json", onFailure, 3, true, true,
		"registry-findings",
	}},
	"screenshooter": {{"screenshooter", "docker.io/securecodebox/scanner-screenshooter:v3.1.0-alpha1", "sh /wrapper.sh -screenshot FILE", "screenshot-png", "screenshot.png", onFailure, 3, true, true, ""}},
	"semgrep":       {{"semgrep", "docker.io/semgrep/semgrep:1.172.0", "semgrep --json -o FILE", "semgrep-json", "semgrep-results.json", onFailure, 3, false, false, ""}},
	"ssh-audit":     {{"ssh-audit", "docker.io/securecodebox/scanner-ssh-audit:v3.9.0", "sh /wrapper.sh", "ssh-audit-json", "ssh-audit.json", onFailure, 3, false, false, ""}},
	"sslyze":        {{"sslyze", "docker.io/securecodebox/scanner-sslyze:6.3.1", "sh /wrapper.sh --json_out FILE", "sslyze-json", "sslyze-results.json", onFailure, 3, false, true, ""}},
	"subfinder":     {{"subfinder", "docker.io/projectdiscovery/subfinder:v2.14.0", "subfinder -json -output FILE", "subfinder-json", "subfinder-results.jsonl", onFailure, 3, true, true, ""}},
	"test-scan":     {{"test-scan", "docker.io/securecodebox/scanner-test-scan:v3.1.0-alpha1", "touch FILE", "test-txt", "hello-world.txt", onFailure, 3, true, true, ""}},
	"trivy": {
		{"trivy-image", trivy, "trivy image --no-progress " + server + "--format json --output FILE", "trivy-json", "trivy-results.json", onFailure, 3, false, false, ""},
		{"trivy-filesystem", trivy, "trivy filesystem --no-progress " + server + "--format json --output FILE", "trivy-json", "trivy-results.json", onFailure, 3, false, false, ""},
		{"trivy-repo", trivy, "trivy repo --no-progress " + server + "--format json --output FILE", "trivy-json", "trivy-results.json", onFailure, 3, false, false, ""},
		{"trivy-k8s", trivy, "trivy k8s --no-progress --format json --report all --output FILE", "trivy-json", "trivy-results.json", onFailure, 3, false, false, "trivy-k8s"},
	},
	"trivy-sbom":               {{"trivy-sbom-image", trivy, "trivy image --no-progress --format cyclonedx --output FILE", "sbom-cyclonedx", "sbom-cyclonedx.json", onFailure, 3, false, false, ""}},
	"whatweb":                  {{"whatweb", "docker.io/securecodebox/scanner-whatweb:v0.6.4", "whatweb --log-json=FILE", "whatweb-json", "whatweb-results.json", never, 3, true, true, ""}},
	"wpscan":                   {{"wpscan", "docker.io/securecodebox/scanner-wpscan:v4.1.0", "sh /wrapper.sh -o FILE -f json", "wpscan-json", "wpscan-results.json", onFailure, 3, false, false, ""}},
	"zap-automation-framework": {{"zap-automation-framework", "docker.io/zaproxy/zap-stable:2.17.0", "bash /zap/zap-entrypoint.bash", "zap-xml", "zap-results.xml", never, -1, false, false, ""}},
}

// autodiscovery is trivy's optional ScanType.
var autodiscovery = scanner{"trivy-image-autodiscovery", trivy, scanners["trivy"][0].Command, "trivy-json", "trivy-results.json", onFailure, 3, false, false, "trivy-autodiscovery"}

// wide are the same for clusterWide installations, where they differ in what can be
// there for every namespace.
func wide() map[string][]scanner {
	all := maps.Clone(scanners)
	delete(all, "nuclei-no-cache")
	all["nuclei"] = scanners["nuclei-no-cache"]
	all["trivy"] = scanners["trivy"][:3]
	zap := scanners["zap-automation-framework"][0]
	zap.Command = "bash -c SCRIPT zap-entrypoint.bash"
	all["zap-automation-framework"] = []scanner{zap}
	out := map[string][]scanner{"trivy-cluster-k8s": append(slices.Clone(scanners["trivy"]), autodiscovery)}
	for chart, types := range all {
		out[chart+"-cluster"] = types
	}
	return out
}

// facts takes from a ScanType what the contract is about.
func facts(t *testing.T, s executionv1.ScanType) scanner {
	t.Helper()
	pod := s.Spec.JobTemplate.Spec.Template.Spec
	c := pod.Containers[0]
	if c.Name != s.Name {
		t.Errorf("the container of %s is called %s", s.Name, c.Name)
	}
	if c.SecurityContext == nil {
		t.Fatalf("%s has no security context", s.Name)
	}
	file, ok := strings.CutPrefix(s.Spec.ExtractResults.Location, executionv1.ResultsDir)
	if !ok {
		t.Errorf("%s: %s is not below %s", s.Name, s.Spec.ExtractResults.Location, executionv1.ResultsDir)
	}
	command := slices.Clone(c.Command)
	for i, word := range command {
		if strings.Contains(word, "\n") {
			command[i] = "SCRIPT"
		}
	}
	out := scanner{
		Name: s.Name, Image: c.Image,
		Command: strings.ReplaceAll(strings.Join(command, " "), s.Spec.ExtractResults.Location, "FILE"),
		Result:  s.Spec.ExtractResults.Type, File: strings.TrimPrefix(file, "/"),
		Restart: pod.RestartPolicy, BackoffLimit: -1, ServiceAccount: pod.ServiceAccountName,
		NonRoot: *c.SecurityContext.RunAsNonRoot, ROFS: *c.SecurityContext.ReadOnlyRootFilesystem,
	}
	if limit := s.Spec.JobTemplate.Spec.BackoffLimit; limit != nil {
		out.BackoffLimit = *limit
	}
	return out
}

// TestScanTypesKeepTheContract compares every ScanType of every scanner chart, word by
// word, as it comes and for all namespaces.
func TestScanTypesKeepTheContract(t *testing.T) {
	all := wide()
	maps.Copy(all, scanners)
	all["trivy-full"] = append(slices.Clone(scanners["trivy"]), autodiscovery)
	for rendering, want := range all {
		t.Run(rendering, func(t *testing.T) {
			got := scanTypes(t, rendering)
			for _, w := range want {
				s, ok := got[w.Name]
				if !ok {
					t.Errorf("there is no ScanType %s", w.Name)
					continue
				}
				if f := facts(t, s); f != w {
					t.Errorf("ScanType\n got %+v\nwant %+v", f, w)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d ScanTypes, want %d: %v", len(got), len(want), slices.Sorted(maps.Keys(got)))
			}
		})
	}
}

// TestScannersDropAllPrivileges: in upper case, which is what the restricted Pod
// Security level asks for.
func TestScannersDropAllPrivileges(t *testing.T) {
	for rendering := range scanners {
		for name, s := range scanTypes(t, rendering) {
			c := s.Spec.JobTemplate.Spec.Template.Spec.Containers[0].SecurityContext
			if *c.AllowPrivilegeEscalation || *c.Privileged || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) > 0 {
				t.Errorf("%s: %s keeps privileges: %v", rendering, name, c)
			}
		}
	}
}

// TestParseDefinitionsKeepTheContract: one per chart, named like the result type, with
// our image and no content type.
func TestParseDefinitionsKeepTheContract(t *testing.T) {
	for rendering, types := range scanners {
		suffixes := []string{""}
		if _, ok := wide()[rendering+"-cluster"]; ok {
			suffixes = append(suffixes, "-cluster")
		}
		for _, suffix := range suffixes {
			kind := "ParseDefinition"
			if suffix != "" {
				kind = "ClusterParseDefinition"
			}
			p := one[executionv1.ParseDefinition](t, rendering+suffix, kind)
			if p.Name != types[0].Result || p.Spec.Image != "docker.io/scanyard/parser:0.1.0" || p.Spec.ContentType != "" || p.Spec.ScopeLimiterAliases != nil {
				t.Errorf("%s: ParseDefinition %s with %+v", rendering+suffix, p.Name, p.Spec)
			}
			if rendering != "subfinder" && (len(p.Spec.Env) > 0 || len(p.Spec.Volumes) > 0) {
				t.Errorf("%s: %s has env %v and volumes %v", rendering+suffix, p.Name, p.Spec.Env, p.Spec.Volumes)
			}
		}
	}
}

// TestParticularsOfParsers: ncrack's key and subfinder's switch.
func TestParticularsOfParsers(t *testing.T) {
	for rendering, want := range map[string]string{"subfinder": "false", "subfinder-cluster": "false", "subfinder-domain": "true"} {
		p := objectsOf[executionv1.ParseDefinition](t, rendering, "ParseDefinition", "ClusterParseDefinition")[0]
		if !slices.Equal(p.Spec.Env, []corev1.EnvVar{{Name: "INCLUDE_TARGET_DOMAIN", Value: want}}) {
			t.Errorf("%s: env %v, want INCLUDE_TARGET_DOMAIN=%s", rendering, p.Spec.Env, want)
		}
	}
	p := one[executionv1.ParseDefinition](t, "ncrack-encrypted", "ParseDefinition").Spec
	if !slices.Equal(p.Env, []corev1.EnvVar{{Name: "ENCRYPTION_KEY_LOCATION", Value: "/secrets/age.pub"}}) {
		t.Errorf("ncrack: env %v", p.Env)
	}
	if len(p.Volumes) != 1 || p.Volumes[0].Secret == nil || p.Volumes[0].Secret.SecretName != "public-key" {
		t.Errorf("ncrack: volumes %v", p.Volumes)
	}
	if len(p.VolumeMounts) != 1 || p.VolumeMounts[0].Name != p.Volumes[0].Name || p.VolumeMounts[0].MountPath != "/secrets/" {
		t.Errorf("ncrack: mounts %v", p.VolumeMounts)
	}
}

// TestExamplesStartAScanTypeOfTheirChart, and Helm's closing words show them.
func TestExamplesStartAScanTypeOfTheirChart(t *testing.T) {
	for chart, types := range scanners {
		if chart == "nuclei-no-cache" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(charts, chart, "example.yaml"))
		if err != nil {
			t.Error(err)
			continue
		}
		var scan executionv1.Scan
		if err := yaml.UnmarshalStrict(raw, &scan); err != nil {
			t.Errorf("%s: %v", chart, err)
		}
		if !slices.ContainsFunc(types, func(s scanner) bool { return s.Name == scan.Spec.ScanType }) {
			t.Errorf("%s: the example is of type %q", chart, scan.Spec.ScanType)
		}
	}
}

// TestNothingWideIsInOneNamespace: what runs in the namespace of every Scan may not
// need a ConfigMap, a claim or a ServiceAccount that is in one.
func TestNothingWideIsInOneNamespace(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden, "*-cluster.yaml"))
	if err != nil || len(files) < len(scanners) {
		t.Fatalf("%d renderings: %v", len(files), err)
	}
	for _, f := range files {
		rendering := strings.TrimSuffix(filepath.Base(f), ".yaml")
		var volumes []corev1.Volume
		for _, s := range scanTypes(t, rendering) {
			pod := s.Spec.JobTemplate.Spec.Template.Spec
			volumes = append(volumes, pod.Volumes...)
			// The registry controller makes the account of registry-findings where a Registry wants it.
			if pod.ServiceAccountName != "" && pod.ServiceAccountName != "registry-findings" {
				t.Errorf("%s: %s needs ServiceAccount %s", rendering, s.Name, pod.ServiceAccountName)
			}
		}
		for _, r := range rulesOf(t, rendering) {
			volumes = append(volumes, r.Spec.ScanSpec.Volumes...)
		}
		for _, v := range volumes {
			if v.ConfigMap != nil || v.PersistentVolumeClaim != nil {
				t.Errorf("%s: volume %s is in one namespace only", rendering, v.Name)
			}
		}
	}
}
