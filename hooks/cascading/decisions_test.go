// SPDX-License-Identifier: Apache-2.0

package cascading_test

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/decision"
)

// exporterAt acknowledges each record, and hands on what came.
func exporterAt(t *testing.T) (url string, records <-chan *decision.Record) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	got := make(chan *decision.Record, 100)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		in := bufio.NewScanner(conn)
		for n := 0; in.Scan(); {
			if strings.HasPrefix(in.Text(), `{"$`) {
				continue
			}
			r, err := decision.Parse(in.Bytes())
			if err != nil {
				t.Errorf("%s: %v", in.Text(), err)
				return
			}
			n++
			got <- &r
			if _, err := fmt.Fprintf(conn, "{\"ack\":{\"through\":%d}}\n", n); err != nil {
				return
			}
		}
	}()
	return "unix://" + path, got
}

// TestDecisions: the hook tells what it has started and what it has not, and why.
func TestDecisions(t *testing.T) {
	url, records := exporterAt(t)
	a := newAPI(t)
	a.put(rulesPath+"/again", ruleWith("CascadingRule", "again", anyPort, ""))
	a.put(rulesPath+"/broken", strings.Replace(ruleWith("CascadingRule", "broken", anyPort, ""), `"matches":{`, `"matches":{"expression":"finding.",`, 1))
	a.put(rulesPath+"/tls", ruleWith("CascadingRule", "tls", anyPort, ""))
	a.put("/apis/execution.securecodebox.io/v1/namespaces/ns/parsedefinitions/nmap-xml", `{"spec":{"scopeLimiterAliases":{"host":"{{attributes.hostname}}"}}}`)
	cascades := `{"maxScans":1,"deduplicate":true,"scopeLimiter":{"allOf":[{"key":"scope.cascading.securecodebox.io/domain","operator":"SubdomainOf","values":["{{$.host}}"]}]}}`
	findings := "[" + port("f-1", 443, "a.example.com") + "," + port("f-2", 443, "a.example.com") + "," + port("f-3", 443, "a.example.org") + "]"
	a.env = map[string]string{"SCANYARD_DECISIONS": url}
	got := a.run(t, scanWith(cascades, ""), findings)
	var told []string
	for len(records) > 0 {
		r := <-records
		told = append(told, fmt.Sprintf("%s %s %s %s %s", r.EventType, r.ConstraintName, r.ConstraintAction, r.ResourceName, r.Details))
	}
	slices.Sort(told)
	want := []string{
		`cascade_started again start sslyze-x-again-7febb9c8893e {"parent":"nmap-x","parentUID":"uid-parent","finding":"f-1","scanType":"sslyze"}`,
		`cascade_stopped  deny nmap-x {"uid":"uid-parent","reason":"scope","count":1}`,
		`cascade_stopped again deny nmap-x {"uid":"uid-parent","reason":"duplicate","count":1}`,
		`cascade_stopped broken deny nmap-x {"uid":"uid-parent","reason":"rule","count":1}`,
		`cascade_stopped tls deny nmap-x {"uid":"uid-parent","reason":"budget","count":1}`,
		`cascade_stopped tls deny nmap-x {"uid":"uid-parent","reason":"duplicate","count":1}`,
	}
	if !slices.Equal(told, want) || strings.Contains(got.Stderr, "did not get all") {
		t.Errorf("told\n%s\nwant\n%s\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"), got.Stderr)
	}
}

// TestDecisionsOff: a wrong address is a wrong setting; an exporter that is away fails nothing.
func TestDecisionsOff(t *testing.T) {
	a := newAPI(t)
	a.put(rulesPath+"/tls", ruleWith("CascadingRule", "tls", anyPort, ""))
	a.env = map[string]string{"SCANYARD_DECISIONS": "grpc://exporter:9443"}
	if got := a.run(t, scanWith("{}", ""), twoPorts); got.ExitCode != 78 || !strings.Contains(got.Stderr, "SCANYARD_DECISIONS") || len(a.created) > 0 {
		t.Errorf("exit code %d, %v: %s", got.ExitCode, a.created, got.Stderr)
	}
	a.env = map[string]string{"SCANYARD_DECISIONS": "unix://" + filepath.Join(t.TempDir(), "nobody")}
	if got := a.run(t, scanWith("{}", ""), twoPorts); got.ExitCode != 0 || len(a.created) != 2 || !strings.Contains(got.Stderr, "did not get all records") {
		t.Errorf("exit code %d, %v: %s", got.ExitCode, a.created, got.Stderr)
	}
}
