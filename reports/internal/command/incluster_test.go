// SPDX-License-Identifier: Apache-2.0

package command

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/server"
)

func TestFlagsOfAClusterThatContradictEachOther(t *testing.T) {
	none := func(string) string { return "" }
	in := []string{"--namespace=team", "--service=reports"}
	for name, c := range map[string]struct {
		flags []string
		says  string
	}{
		"TakeOver":        {append(slices.Clone(in), "--take-over=maybe"), "never, ifAbsent or always"},
		"NoService":       {[]string{"--take-over=ifAbsent"}, "need --namespace and --service"},
		"SecretNoService": {[]string{"--tls-secret=tls"}, "need --namespace and --service"},
		"TwoAuthorities":  {append(slices.Clone(in), "--tls-secret=tls", "--inject-ca-from=team/reports"), "--inject-ca-from exclude each other"},
		"TwoCertificates": {append(slices.Clone(in), "--tls-secret=tls", "--tls-cert=a", "--tls-key=b"), "--tls-cert exclude each other"},
		"Standalone":      {append(slices.Clone(in), "--standalone"), "not for --standalone"},
	} {
		t.Run(name, func(t *testing.T) {
			command := New(io.Discard, none)
			command.SetArgs(append(c.flags, "--sqlite=/nowhere/reports.db"))
			if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
	command := New(io.Discard, none)
	command.SetArgs([]string{"release", "--namespace=team"})
	if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--service") {
		t.Errorf("release without a Service: %v", err)
	}
}

// TestAPIServicesOfAllGroups: a group that is served and has no APIService would be out of reach.
func TestAPIServicesOfAllGroups(t *testing.T) {
	known := map[string]bool{}
	for _, g := range groupsOf(server.Groups{WGPolicy: true, OpenReports: true, Scanyard: true, Prext: true}) {
		known[g.Group+"/"+g.Version] = g.Served
	}
	for _, served := range kinds.Table {
		if gv := served.GroupVersion.String(); !known[gv] {
			t.Errorf("%s is served, and has no APIService", gv)
		}
	}
}

// TestCertManagerCertificateIsNotStored: its certificate is in files, and its injector tells kube-apiserver.
func TestCertManagerCertificateIsNotStored(t *testing.T) {
	for secret, want := range map[string]struct{ tasks, metrics int }{"": {1, 2}, "tls": {2, 3}} {
		f := &inClusterFlags{serviceFlags: serviceFlags{namespace: "team", service: "reports"}, tlsSecret: secret}
		kept, err := f.connect(&rest.Config{Host: "https://127.0.0.1:1"}, server.Groups{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(kept.events.Shutdown)
		if len(kept.tasks()) != want.tasks || len(kept.metrics()) != want.metrics || (kept.certificate != nil) != (secret != "") {
			t.Errorf("Secret %q: %d tasks, %d metrics", secret, len(kept.tasks()), len(kept.metrics()))
		}
		described := make(chan *prometheus.Desc, want.metrics)
		for _, metric := range kept.metrics() {
			metric.Describe(described)
		}
		close(described)
		var names []string
		for metric := range described {
			names = append(names, metric.String())
		}
		if strings.Contains(strings.Join(names, "\n"), `"scanyard_reports_certificate_expiry_seconds"`) != (secret != "") {
			t.Errorf("Secret %q: metrics %s", secret, names)
		}
	}
}
