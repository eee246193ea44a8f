// SPDX-License-Identifier: Apache-2.0

package scanconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/scanyard/scanyard/apis/strictyaml"
)

type arguments struct {
	Target metav1.ObjectMeta
	Host   struct {
		Type string
		Port int32
	}
}

func sample() arguments {
	var a arguments
	a.Target.Name = "shop"
	a.Target.Labels = map[string]string{"app": "juice"}
	a.Host.Type, a.Host.Port = "https", 8443
	return a
}

// load reads a list of scanConfigs as a configuration file holds them.
func load(t *testing.T, text string) ([]*Template, error) {
	t.Helper()
	var c struct {
		ScanConfigs []ScanConfig `json:"scanConfigs"`
	}
	f, err := strictyaml.Decode("config.yaml", []byte(text), &c)
	if err != nil {
		return nil, err
	}
	all, errs := CompileAll(c.ScanConfigs, field.NewPath("scanConfigs"), sample())
	return all, f.Check(errs)
}

func TestRender(t *testing.T) {
	all, err := load(t, `
scanConfigs:
- name: nmap
  scanType: nmap
  repeatInterval: 24h
  parameters: ["-p", "{{ .Host.Port }}", "{{ if false }}gone{{ end }}", "{{ .Target.Name | upper }}"]
  labels: {app: "{{ index .Target.Labels `+"`app`"+` }}", none: "{{ index .Target.Labels `+"`x`"+` }}"}
  annotations: {url: "{{ .Host.Type }}://{{ .Target.Name }}"}
  env:
  - {name: EMPTY, value: "{{ if false }}x{{ end }}"}
  - {name: REF, valueFrom: {secretKeyRef: {name: "{{ .Target.Name }}", key: k}}}
  volumes:
  - {name: "v-{{ .Target.Name }}", secret: {secretName: "s-{{ .Target.Name }}"}}
  volumeMounts:
  - {name: "v-{{ .Target.Name }}", mountPath: "/{{ .Host.Port }}", subPath: "{{ .Host.Type }}"}
  hookSelector:
    matchLabels: {a: "{{ .Host.Type }}", b: ""}
    matchExpressions:
    - {key: "k-{{ .Host.Port }}", operator: In, values: ["{{ .Target.Name }}", ""]}
  schedule: "0 3 * * *"
  timeZone: Europe/Berlin
  jitter: 10m
  resourceMode: clusterWide
  ttlSecondsAfterFinished: 60
  priority: 7
  resources: {requests: {cpu: 100m}}
  initContainers:
  - {name: i, image: i, args: ["{{ .Target.Name }}"]}
`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := all[0].Render(sample())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"app": "juice"}, got.Labels); diff != "" {
		t.Errorf("labels: %s", diff)
	}
	if diff := cmp.Diff(map[string]string{"url": "https://shop"}, got.Annotations); diff != "" {
		t.Errorf("annotations: %s", diff)
	}
	s := got.Spec
	if s.Interval != "" || s.Schedule != "0 3 * * *" || s.Jitter != "10m0s" || !s.RetriggerOnScanTypeChange {
		t.Errorf("times: %+v", s)
	}
	scan := s.ScanSpec
	if diff := cmp.Diff([]string{"-p", "8443", "SHOP"}, scan.Parameters); diff != "" {
		t.Errorf("parameters: %s", diff)
	}
	wantEnv := []corev1.EnvVar{{Name: "EMPTY"}, {Name: "REF", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "{{ .Target.Name }}"}, Key: "k",
	}}}}
	if diff := cmp.Diff(wantEnv, scan.Env); diff != "" {
		t.Errorf("env: %s", diff)
	}
	wantMounts := []corev1.VolumeMount{{Name: "v-shop", MountPath: "/8443", SubPath: "https"}}
	if diff := cmp.Diff(wantMounts, scan.VolumeMounts); diff != "" {
		t.Errorf("mounts: %s", diff)
	}
	if scan.Volumes[0].Name != "v-shop" || scan.Volumes[0].Secret.SecretName != "s-shop" || scan.InitContainers[0].Args[0] != "shop" {
		t.Errorf("volumes %+v, init containers %+v", scan.Volumes, scan.InitContainers)
	}
	wantSelector := &metav1.LabelSelector{
		MatchLabels:      map[string]string{"a": "https"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k-8443", Operator: "In", Values: []string{"shop"}}},
	}
	if diff := cmp.Diff(wantSelector, scan.HookSelector, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("hookSelector keeps both kinds: %s", diff)
	}
	if *scan.ResourceMode != "clusterWide" || *scan.TTLSecondsAfterFinished != 60 || *scan.Priority != 7 || scan.Resources.Requests.Cpu().String() != "100m" {
		t.Errorf("additions: %+v", scan)
	}
	// What was rendered shares nothing with the scanConfig.
	if all[0].Config().Volumes[0].Name != "v-{{ .Target.Name }}" {
		t.Error("rendering has changed the scanConfig")
	}
}

const valid = "scanConfigs:\n- name: a\n  scanType: nmap\n  repeatInterval: 24h\n"

// TestBadConfigNamesFileLineAndField: whatever is wrong is found when the file is read.
func TestBadConfigNamesFileLineAndField(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"Syntax":          {valid + "  parameters: ['{{ .Host.Port ']", "config.yaml:5: scanConfigs[0].parameters[0]: Invalid value"},
		"UnknownFunction": {valid + "  env:\n  - name: X\n    value: '{{ nosuch 1 }}'", `config.yaml:7: scanConfigs[0].env[0].value: Invalid value: "{{ nosuch 1 }}": function "nosuch" not defined`},
		"Inconstant":      {valid + "  labels: {a: '{{ now }}'}", "differs from call to call"},
		"Environment":     {valid + "  labels: {a: '{{ env \"AWS_SECRET_ACCESS_KEY\" }}'}", "reads the environment of the auto-discovery"},
		"Expanded":        {valid + "  labels: {a: '{{ expandenv \"$HOME\" }}'}", "reads the environment of the auto-discovery"},
		"UnknownArgument": {valid + "  annotations:\n    example.com/x: '{{ .Target.Naming }}'", "config.yaml:6: scanConfigs[0].annotations[example.com/x]: "},
		"UnknownField":    {valid + "  params: []", "config.yaml:5: scanConfigs[0].params: there is no such field"},
		"CaseOfField":     {valid + "  Parameters: []", "config.yaml:5: scanConfigs[0].Parameters: there is no such field"},
		"Twice":           {valid + "  name: b", "config.yaml:5: scanConfigs[0].name: is there already in line 2"},
		"WrongType":       {valid + "  parameters:\n  - a\n  - 80", "config.yaml:7: scanConfigs[0].parameters[1]: is a number and must be a text"},
		"NotAList":        {valid + "  volumes: {}", "config.yaml:5: scanConfigs[0].volumes: is a map of fields and must be a list"},
		"Days":            {"scanConfigs:\n- name: a\n  scanType: b\n  repeatInterval: 7d", "config.yaml:4: scanConfigs[0].repeatInterval: "},
		"NoInterval":      {"scanConfigs:\n- name: a\n  scanType: b", "config.yaml:2: scanConfigs[0].repeatInterval: Required value"},
		"SameName":        {valid + "- name: a\n  scanType: nmap\n  repeatInterval: 24h\n", "config.yaml:5: scanConfigs[1].name: Duplicate value"},
		"Quantity":        {valid + "  resources: {requests: {cpu: much}}", "config.yaml:5: scanConfigs[0].resources.requests.cpu: "},
		"Mode":            {valid + "  resourceMode: clusterwide", `config.yaml:5: scanConfigs[0].resourceMode: Unsupported value: "clusterwide": supported values: "namespaceLocal", "clusterWide"`},
		"NoYAML":          {"scanConfigs:\n  - a: [", "config.yaml:2: is not YAML"},
		"Empty":           {"", "config.yaml: is empty"},
		"TwoDocuments":    {"scanConfigs: []\n---\nscanConfigs: []\n", "more than one document"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q in:\n%v", c.want, err)
			}
		})
	}
}

// TestRenderErrors: what depends on the target is an error of that target, never a panic.
func TestRenderErrors(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"Fail":      {"  parameters: ['{{ fail `no` }}']", "scanConfigs[0].parameters[0]: "},
		"Panic":     {"  parameters: ['{{ index (list) 3 }}']", "scanConfigs[0].parameters[0]: "},
		"Endless":   {"  parameters: ['{{ define `x` }}{{ template `x` . }}{{ end }}{{ template `x` . }}']", "exceeded maximum template depth"},
		"Much":      {"  parameters: ['{{ range until 100000 }}0123456789{{ end }}']", "prints more than 64 KiB"},
		"LongLabel": {"  labels: {a: '{{ repeat 70 `x` }}'}", "scanConfigs[0].labels[a]: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			all, err := load(t, valid+c.text)
			if err != nil {
				t.Fatalf("is not an error of the file: %v", err)
			}
			if _, err := all[0].Render(sample()); err == nil || !strings.Contains(err.Error(), c.want) || !IsRenderError(err) {
				t.Errorf("want %q in: %v", c.want, err)
			}
		})
	}
}
