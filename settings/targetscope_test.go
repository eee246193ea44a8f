// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// said is what a target is taken for.
func (t target) said() string {
	switch {
	case t.unreadable != "":
		return "unreadable"
	case t.host != "":
		return t.host
	case t.first == t.last:
		return t.first.String()
	}
	return t.first.String() + " to " + t.last.String()
}

func TestTargetsOf(t *testing.T) {
	for parameter, want := range map[string]string{
		"":               "",
		"-sV":            "",
		"-oX":            "",
		"--top-ports=10": "",
		"80":             "",
		"1-1024":         "",
		"vuln":           "",
		"/etc/hosts":     "",
		"./list.txt":     "",
		"../a.b":         "",
		"1.5":            "",
		"v1.2.3":         "",
		"alpine:latest":  "",
		"file:///x/y":    "",
		"[a-z]+":         "",

		"192.0.2.7":                 "192.0.2.7",
		"192.0.2.7:443":             "192.0.2.7",
		"192.0.2.0/24":              "192.0.2.0 to 192.0.2.255",
		"192.0.2.77/24":             "192.0.2.0 to 192.0.2.255",
		"192.0.2.1-192.0.2.9":       "192.0.2.1 to 192.0.2.9",
		"10.0.0-3.*":                "10.0.0.0 to 10.0.3.255",
		"10.0.0.1,7":                "10.0.0.1 to 10.0.0.7",
		"10.0.0.250-":               "10.0.0.250 to 10.0.0.255",
		"10.0.0.1,10.0.0.9":         "10.0.0.1; 10.0.0.9",
		"2001:db8::1":               "2001:db8::1",
		"[2001:db8::1]:443":         "2001:db8::1",
		"2001:db8::/127":            "2001:db8:: to 2001:db8::1",
		"::ffff:192.0.2.7":          "192.0.2.7",
		"https://[fe80::1%25en0]/x": "fe80::1",

		"Shop.Example.com":                     "shop.example.com",
		"shop.example.com.":                    "shop.example.com",
		"shop.example.com:8443":                "shop.example.com",
		"shop.example.com/admin":               "shop.example.com",
		"registry.example.com/team/app:1.2":    "registry.example.com",
		"root@host.example.com":                "host.example.com",
		"https://user:pw@shop.example.com:8/x": "shop.example.com",
		"https://allowed.com@evil.com/":        "evil.com",
		"//cdn.example.com/x":                  "cdn.example.com",
		"redis:6379":                           "redis",
		"http://redis":                         "redis",
		"localhost":                            "localhost",
		"a.example.com,b.example.com":          "a.example.com; b.example.com",
		"--url=https://a.example.com":          "a.example.com",
		"-uhttps://a.example.com/FUZZ":         "a.example.com",
		"-d=a.example.com":                     "a.example.com",
		"words.txt":                            "words.txt",

		"$(TARGET)":             "unreadable",
		"--url=http://$(T)/x":   "unreadable",
		"-u$(T)":                "unreadable",
		"http://2130706433/":    "unreadable",
		"http://0x7f.1/":        "unreadable",
		"http://127.1/":         "unreadable",
		"010.0.0.1":             "unreadable",
		"http://010.0.0.1/":     "unreadable",
		"300.0.0.1":             "unreadable",
		"http://exa mple.com/":  "exa; mple.com",
		"https://ex%61mple.com": "unreadable",
	} {
		var got []string
		for _, found := range targetsOf(parameter) {
			got = append(got, found.said())
		}
		if diff := cmp.Diff(want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", parameter, diff)
		}
	}
}

func TestTargetScope(t *testing.T) {
	type scope = settingsv1alpha2.TargetScope
	for name, tc := range map[string]struct {
		reason       string
		cluster, own *scope
		scanType     string
		parameters   string
		env          []corev1.EnvVar
		want         string
	}{
		"NoRule":         {reason: "nobody has said anything", parameters: "10.0.0.1"},
		"Allowed":        {reason: "within the network", cluster: &scope{Allowed: []string{"192.0.2.0/24"}}, parameters: "-p 80 192.0.2.7"},
		"NotAllowed":     {reason: "beside the network", cluster: &scope{Allowed: []string{"192.0.2.0/24"}}, parameters: "-p 80 192.0.3.7", want: `spec.parameters[2]: target "192.0.3.7" is none of those that spec.targetScope.allowed of the ClusterScanSetting allows (192.0.2.0/24)`},
		"Wider":          {reason: "a part is not enough", cluster: &scope{Allowed: []string{"192.0.2.0/24"}}, parameters: "192.0.2.0/23", want: "none of those"},
		"SecondOne":      {reason: "all have to be allowed", cluster: &scope{Allowed: []string{"192.0.2.0/24"}}, parameters: "192.0.2.1 192.0.2.2,evil.example.com", want: `spec.parameters[1]: target "evil.example.com"`},
		"Below":          {reason: "a host of the domain", cluster: &scope{Allowed: []string{"*.example.com"}}, parameters: "https://a.b.example.com/x"},
		"NotTheDomain":   {reason: "the domain itself is another name", cluster: &scope{Allowed: []string{"*.example.com"}}, parameters: "example.com", want: "none of those"},
		"NotASuffix":     {reason: "another domain that ends alike", cluster: &scope{Allowed: []string{"*.example.com"}}, parameters: "evilexample.com", want: "none of those"},
		"NameOfNetwork":  {reason: "nobody knows its address here", cluster: &scope{Allowed: []string{"192.0.2.0/24"}}, parameters: "shop.example.com", want: "none of those"},
		"NoTarget":       {reason: "it may stand in a file", cluster: &scope{Allowed: []string{"192.0.2.0/24"}}, parameters: "-iL /list", want: "no target can be read"},
		"Denied":         {reason: "the cluster's own network", cluster: &scope{Denied: []string{"10.0.0.0/8", "*.svc"}}, parameters: "10.1.2.3", want: `target "10.1.2.3" is denied by "10.0.0.0/8" (spec.targetScope.denied of the ClusterScanSetting)`},
		"DeniedOverlap":  {reason: "a part is too much", cluster: &scope{Denied: []string{"10.0.0.0/8"}}, parameters: "0.0.0.0/0", want: "is denied"},
		"DeniedOctets":   {reason: "as nmap writes networks", cluster: &scope{Denied: []string{"10.9.0.0/16"}}, parameters: "10.0-20.1.1", want: "is denied"},
		"DeniedName":     {reason: "a Service", cluster: &scope{Denied: []string{"*.svc"}}, parameters: "http://api.blue.svc:80", want: "is denied"},
		"DeniedMapped":   {reason: "the same address", cluster: &scope{Denied: []string{"169.254.169.254"}}, parameters: "http://[::ffff:169.254.169.254]/", want: "is denied"},
		"DeniedFirst":    {reason: "whatever is allowed", cluster: &scope{Allowed: []string{"10.0.0.0/8"}, Denied: []string{"10.0.0.1"}}, parameters: "10.0.0.1", want: "is denied"},
		"OthersPass":     {reason: "nothing is denied of it", cluster: &scope{Denied: []string{"10.0.0.0/8"}}, parameters: "-iL /list shop.example.com"},
		"Strange":        {reason: "it might be a denied one", cluster: &scope{Denied: []string{"127.0.0.0/8"}}, parameters: "http://2130706433/", want: "is an address in an unusual form, so it cannot be held against spec.targetScope of the ClusterScanSetting"},
		"Variable":       {reason: "its value is in the Scan", cluster: &scope{Allowed: []string{"*.example.com"}}, parameters: "$(T)", env: []corev1.EnvVar{{Name: "T", Value: "a.example.com"}}},
		"VariableDenied": {reason: "its value is in the Scan", cluster: &scope{Denied: []string{"*.example.com"}}, parameters: "$(T)", env: []corev1.EnvVar{{Name: "T", Value: "a.example.com"}}, want: "is denied"},
		"VariableSecret": {reason: "its value is elsewhere", cluster: &scope{Denied: []string{"*.example.com"}}, parameters: "$(T)", env: []corev1.EnvVar{{Name: "T", ValueFrom: &corev1.EnvVarSource{}}}, want: "is filled in by a variable"},
		"OtherType":      {reason: "it scans no host", cluster: &scope{Allowed: []string{"192.0.2.0/24"}, ScanTypes: []string{"nmap*", "zap"}}, scanType: "semgrep", parameters: "/src"},
		"TypeByGlob":     {reason: "it is one of those", cluster: &scope{Allowed: []string{"192.0.2.0/24"}, ScanTypes: []string{"nmap*", "zap"}}, scanType: "nmap-privileged", parameters: "10.0.0.1", want: "none of those"},
		"Ports":          {reason: "services are not hosts", cluster: &scope{Allowed: []string{"192.0.2.0/24"}}, parameters: "-p ftp:2121 192.0.2.7"},
		"OwnTightens":    {reason: "both have to allow it", cluster: &scope{Allowed: []string{"192.0.2.0/24"}}, own: &scope{Allowed: []string{"192.0.2.7"}}, parameters: "192.0.2.8", want: "spec.targetScope.allowed of the ScanSetting"},
		"OwnCannotWiden": {reason: "both have to allow it", cluster: &scope{Denied: []string{"10.0.0.0/8"}}, own: &scope{Allowed: []string{"10.0.0.0/8"}}, parameters: "10.0.0.1", want: "spec.targetScope.denied of the ClusterScanSetting"},
		"OwnAlone":       {reason: "a team bounds itself", own: &scope{Denied: []string{"prod.example.com"}}, parameters: "prod.example.com", want: "spec.targetScope.denied of the ScanSetting"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, own := &clusterSpec{TargetScope: tc.cluster}, &settingsv1alpha2.ScanSettingSpec{TargetScope: tc.own}
			spec := &executionv1.ScanSpec{ScanType: tc.scanType, Parameters: strings.Fields(tc.parameters), Env: tc.env}
			got := Compute(Input{Cluster: cluster, Setting: own}).TargetScope.Refuses("spec", spec)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestCheckTargetScope(t *testing.T) {
	s := &settingsv1alpha2.TargetScope{
		Allowed: []string{"192.0.2.0/24", "192.0.2.7", "2001:db8::/32", "shop.example.com", "*.example.com", "localhost", "192.0.2.7/24", "https://x.example.com", "10.0.0"},
		Denied:  []string{"*", "a b"}, ScanTypes: []string{"nmap*", "[x"},
	}
	var got []string
	for _, e := range checkTargetScope(s, field.NewPath("spec", "targetScope")) {
		got = append(got, e.Field)
	}
	want := []string{
		"spec.targetScope.allowed[6]", "spec.targetScope.allowed[7]", "spec.targetScope.allowed[8]", "spec.targetScope.denied[0]", "spec.targetScope.denied[1]",
		"spec.targetScope.scanTypes[1]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
