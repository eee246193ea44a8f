// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/plan"
)

// generator is a findings.json of any size that is never all there.
type generator struct {
	count, at int
	one       func(i int) string
	pending   []byte
}

func (g *generator) Read(p []byte) (int, error) {
	for len(g.pending) == 0 {
		switch {
		case g.at > g.count:
			return 0, io.EOF
		case g.at == g.count:
			g.pending = []byte("]")
		case g.at == 0:
			g.pending = []byte("[" + g.one(0))
		default:
			g.pending = append(append(g.pending, ','), g.one(g.at)...)
		}
		g.at++
	}
	n := copy(p, g.pending)
	g.pending = g.pending[n:]
	return n, nil
}

// openPort is what a scan of a large network finds.
func openPort(i int) string {
	port := []int{21, 22, 25, 80, 111, 135, 139, 443, 445, 993, 3306, 3389, 5432, 8080, 8443, 9200}[i%16]
	return fmt.Sprintf(`{"id":"%08x-0000-5000-8000-%012x","name":"Open Port: %d (s%d)","description":"Port %d is open using tcp protocol.",`+
		`"category":"Open Port","location":"tcp://10.%d.%d.%d:%d","osi_layer":"NETWORK","severity":"INFORMATIONAL","attributes":{"port":%d,`+
		`"state":"open","ip_addresses":["10.%d.%d.%d"],"mac_address":null,"protocol":"tcp","hostname":"host-%d.example.com","method":"table",`+
		`"operating_system":null,"service":"s%d","serviceProduct":null,"serviceVersion":null,"scripts":null,"tunnel":null},`+
		`"parsed_at":"2030-01-01T00:00:00.000Z"}`,
		i, i, port, port, port, i>>16&255, i>>8&255, i&255, port, port, i>>16&255, i>>8&255, i&255, i, port)
}

// rules are n rules of the kinds that charts ship: ports, services with wildcards, categories with a further condition.
func rules(tb testing.TB, n int) []finding.Object {
	tb.Helper()
	all := make([]finding.Object, n)
	for i := range all {
		condition := fmt.Sprintf(`{"category":"Open Port","attributes":{"port":%d,"state":"open"}},{"category":"Open Port","attributes":{"service":"svc-%d*"}}`, 20000+i, i)
		switch {
		case i%10 == 1:
			condition = fmt.Sprintf(`{"category":"Subdomain %d"}`, i)
		case i%10 == 2:
			condition = fmt.Sprintf(`{"name":"*nothing-%d*"}`, i)
		case i == 50:
			condition = `{"category":"Open Port","attributes":{"port":9200,"hostname":"host-1*99.example.com"}}`
		}
		all[i] = object(tb, fmt.Sprintf(`{"kind":"CascadingRule","metadata":{"name":"rule-%d"},"spec":{"matches":{"anyOf":[%s]},`+
			`"scanSpec":{"scanType":"sslyze","parameters":["{{$.hostOrIP}}:{{attributes.port}}"]}}}`, i, condition))
	}
	return all
}

func object(tb testing.TB, text string) finding.Object {
	tb.Helper()
	v, err := finding.DecodeValue([]byte(text), 0)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	o, ok := v.(finding.Object)
	if !ok {
		tb.Fatalf("%s is not an object", text)
	}
	return o
}

const parent = `{"apiVersion":"execution.securecodebox.io/v1","kind":"Scan","metadata":{"name":"nmap-net","namespace":"ns","uid":"u-1",` +
	`"annotations":{"scope.cascading.securecodebox.io/domain":"example.com","scope.cascading.securecodebox.io/net":"10.0.0.0/8"}},` +
	`"spec":{"scanType":"nmap","parameters":["10.0.0.0/8"],"cascades":%s}}`

func eachOf(open func() io.Reader) plan.Source {
	return func(yield func([]byte) error) error {
		reader := finding.NewReader(open(), finding.Limits{})
		for {
			raw, err := reader.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := yield(raw); err != nil {
				return err
			}
		}
	}
}

// usage is the processor time of this process so far.
func usage(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMillionFindings prints what 1,000,000 findings against 100 rules cost: processor seconds and the most memory
// that the process had from the system. Making up the findings counts, too.
func BenchmarkMillionFindings(b *testing.B) {
	for name, cascades := range map[string]string{
		"Rules":         `{}`,
		"RulesAndScope": `{"scopeLimiter":{"allOf":[{"key":"scope.cascading.securecodebox.io/domain","operator":"SubdomainOf","values":["{{attributes.hostname}}"]},{"key":"scope.cascading.securecodebox.io/net","operator":"InCIDR","values":["{{#asList}}attributes.ip_addresses{{/asList}}"]}]}}`,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				million(b, cascades)
			}
		})
	}
}

func million(b *testing.B, cascades string) {
	const count = 1_000_000
	var peak uint64
	before := usage(b)
	p, err := plan.New(plan.Input{Scan: object(b, fmt.Sprintf(parent, cascades)), Rules: rules(b, 100)})
	if err != nil {
		b.Fatal(err)
	}
	source := eachOf(func() io.Reader { return &generator{count: count, one: openPort} })
	n := 0
	look := func() {
		if n++; n%20_000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.Sys-m.HeapReleased)
		}
	}
	if err := source(func(raw []byte) error { look(); return p.Add(raw) }); err != nil {
		b.Fatal(err)
	}
	children := 0
	err = p.Children(source, func(plan.Child) (plan.Result, error) {
		look()
		children++
		return plan.Started, nil
	})
	if err := errors.Join(err, p.Err()); err != nil {
		b.Fatal(err)
	}
	if children == 0 {
		b.Fatal("no rule has fired")
	}
	b.ReportMetric((usage(b) - before).Seconds(), "cpu-s/op")
	b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
	b.ReportMetric(float64(children), "children")
}
