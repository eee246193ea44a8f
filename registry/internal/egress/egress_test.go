// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/registry/internal/egress"
)

// answers is a name server: each question takes the next answer, the last one for ever.
func answers(list ...string) egress.Resolve {
	return func(context.Context, string) ([]netip.Addr, error) {
		var addresses []netip.Addr
		for text := range strings.FieldsSeq(list[0]) {
			addresses = append(addresses, netip.MustParseAddr(text))
		}
		if len(list) > 1 {
			list = list[1:]
		}
		return addresses, nil
	}
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// listen counts the connections that somebody makes.
func listen(t *testing.T) (port string, count func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan int, 1)
	go func() {
		n := 0
		for {
			connection, err := listener.Accept()
			if err != nil {
				accepted <- n
				return
			}
			n++
			connection.Close()
		}
	}()
	_, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, func() int {
		listener.Close()
		return <-accepted
	}
}

// end waits until the listener has closed a connection, which it does after it has counted.
func end(t *testing.T, connection net.Conn) {
	t.Helper()
	if _, err := io.ReadAll(connection); err != nil {
		t.Error(err)
	}
	connection.Close()
}

// refused dials and gives the message of the refusal.
func refused(t *testing.T, d *egress.Dialer, ctx context.Context, address string) string {
	t.Helper()
	connection, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		connection.Close()
		t.Fatalf("%s: is dialled", address)
	}
	if _, ok := errors.AsType[*egress.Error](err); !ok {
		t.Fatalf("%s: %v is not a refusal", address, err)
	}
	return err.Error()
}

func TestEgressMetadata(t *testing.T) {
	for address, class := range map[string]string{
		"169.254.169.254": "cloud metadata", "169.254.170.2": "cloud metadata", "fd00:ec2::254": "cloud metadata", "100.100.100.200": "cloud metadata",
		"168.63.129.16": "cloud metadata", "127.0.0.1": "loopback", "127.8.0.1": "loopback", "::1": "loopback", "169.254.1.1": "link-local",
		"fe80::1": "link-local", "fe80::1%eth0": "link-local", "0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified",
		"224.0.0.1": "multicast", "ff02::1": "multicast", "255.255.255.255": "broadcast",
		"::ffff:127.0.0.1": "loopback", "::127.0.0.1": "loopback", "64:ff9b::169.254.169.254": "cloud metadata", "2002:7f00:1::": "loopback",
		"64:ff9b:1:a9fe:a9:fe00::": "cloud metadata", "64:ff9b:1::7f00:1": "loopback", "2001:0:808:808::80ff:fffe": "loopback",
		"10.1.2.3": "private", "172.16.0.1": "private", "192.168.0.1": "private", "fd12::1": "private", "100.64.0.1": "private", "240.0.0.1": "private",
	} {
		for _, host := range []string{address, "registry.local"} {
			d := egress.NewDialer(egress.Rules{RefusePrivate: true}, egress.WithResolve(answers(address)))
			if message := refused(t, d, t.Context(), net.JoinHostPort(host, "443")); !strings.Contains(message, class) {
				t.Errorf("%s: %s does not name %s", address, message, class)
			}
		}
	}
	d := egress.NewDialer(egress.Rules{}, egress.WithResolve(answers("127.0.0.1")))
	if got := refused(t, d, t.Context(), "registry.local:5000"); got != "HostNotAllowed: registry.local resolves to 127.0.0.1 (loopback)" {
		t.Error(got)
	}
	wide := egress.NewDialer(egress.Rules{AllowCIDRs: prefixes("169.254.0.0/16", "100.64.0.0/10")})
	for _, address := range []string{"169.254.169.254:80", "100.100.100.200:80"} {
		if got := refused(t, wide, t.Context(), address); !strings.Contains(got, "cloud metadata") {
			t.Error(got)
		}
	}
}

func TestEgressAllowed(t *testing.T) {
	port, count := listen(t)
	loopback := prefixes("127.0.0.1/32")
	number, err := netip.ParseAddrPort("127.0.0.1:" + port)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rules egress.Rules
		want  string
	}{
		"Exception":     {egress.Rules{AllowCIDRs: loopback}, ""},
		"DenyWins":      {egress.Rules{AllowCIDRs: loopback, DenyCIDRs: prefixes("127.0.0.0/8")}, "denied"},
		"APIServer":     {egress.Rules{AllowCIDRs: loopback, Kept: []egress.Kept{{Class: "API server", Address: number.Addr(), Port: number.Port()}}}, "API server"},
		"OtherPort":     {egress.Rules{AllowCIDRs: loopback, Kept: []egress.Kept{{Class: "API server", Address: number.Addr(), Port: 6443}}}, ""},
		"WholeAddress":  {egress.Rules{AllowCIDRs: loopback, Kept: []egress.Kept{{Class: "NATS", Address: number.Addr()}}}, "NATS"},
		"OneOfTwoNames": {egress.Rules{AllowCIDRs: prefixes("10.0.0.0/8")}, "loopback"},
	} {
		d := egress.NewDialer(c.rules, egress.WithResolve(answers("127.0.0.1")))
		connection, err := d.DialContext(t.Context(), "tcp", "registry.local:"+port)
		if err == nil {
			end(t, connection)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if got := count(); got != 2 {
		t.Errorf("%d connections, want 2", got)
	}
}

// TestEgressRebinding has a name that tells a good address once and then a bad one: what was decided on is what is dialled.
func TestEgressRebinding(t *testing.T) {
	port, count := listen(t)
	d := egress.NewDialer(egress.Rules{AllowCIDRs: prefixes("127.0.0.1/32")}, egress.WithResolve(answers("127.0.0.1", "127.0.0.2", "127.0.0.2 127.0.0.1")))
	connection, err := d.DialContext(t.Context(), "tcp", "registry.local:"+port)
	if err != nil {
		t.Fatal(err)
	}
	if got := connection.RemoteAddr().String(); got != "127.0.0.1:"+port {
		t.Error(got)
	}
	end(t, connection)
	if got := refused(t, d, t.Context(), "registry.local:"+port); got != "HostNotAllowed: registry.local resolves to 127.0.0.2 (loopback)" {
		t.Error(got)
	}
	// Of two addresses the one that is allowed is dialled.
	connection, err = d.DialContext(t.Context(), "tcp", "registry.local:"+port)
	if err != nil {
		t.Fatal(err)
	}
	if got := connection.RemoteAddr().String(); got != "127.0.0.1:"+port {
		t.Error(got)
	}
	end(t, connection)
	if got := count(); got != 2 {
		t.Errorf("%d connections, want 2", got)
	}
}

// TestConnections has a host with all of its connections: the next one waits until one of them is closed.
func TestConnections(t *testing.T) {
	port, count := listen(t)
	d := egress.NewDialer(egress.Rules{AllowCIDRs: prefixes("127.0.0.1/32")}, egress.WithResolve(answers("127.0.0.1")))
	var open []net.Conn
	for range 16 {
		connection, err := d.DialContext(t.Context(), "tcp", "registry.local:"+port)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, connection)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.DialContext(ended, "tcp", "registry.local:"+port); !errors.Is(err, context.Canceled) {
		t.Error("the 17th connection is made:", err)
	}
	// Another host is not held up, and a refusal takes no place.
	for range 20 {
		refused(t, d, t.Context(), "127.0.0.2:"+port)
	}
	end(t, open[0])
	open[0].Close()
	connection, err := d.DialContext(t.Context(), "tcp", "registry.local:"+port)
	if err != nil {
		t.Fatal(err)
	}
	for _, connection := range append(open[1:], connection) {
		end(t, connection)
	}
	if got := count(); got != 17 {
		t.Errorf("%d connections, want 17", got)
	}
}

func TestEgressHop(t *testing.T) {
	d := egress.NewDialer(egress.Rules{}, egress.WithResolve(answers("127.0.0.1")))
	got := refused(t, d, egress.Hop(t.Context(), "registry.example.com"), "inner.cluster.local:443")
	if got != "HostNotAllowed: registry.example.com leads to an address that is not allowed" {
		t.Error(got)
	}
}

func TestRules(t *testing.T) {
	rules := egress.Rules{AllowedHosts: [][]string{{"*.example.com", "10.0.0.1:5000"}, nil, {"a.*", "10.*"}}}
	if err := rules.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := (egress.Rules{AllowedHosts: [][]string{{"["}}}).Validate(); err == nil {
		t.Error("a pattern that is none is taken")
	}
	for text, want := range map[string]string{
		"https://a.example.com": "", "https://A.Example.com.:8443": "", "http://10.0.0.1:5000": "",
		"http://10.0.0.1:5001":     "HostNotAllowed: 10.0.0.1 is not in allowedHosts",
		"https://b.example.com":    "HostNotAllowed: b.example.com is not in allowedHosts",
		"https://a.example.com:22": "HostNotAllowed: a.example.com: port 22 is not allowed: ports are 80, 443, 1024 and above",
	} {
		if got := said(rules.Host(parse(t, text))); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for name, c := range map[string]struct {
		from, to string
		hop      int
		want     string
	}{
		"OtherHost": {"https://a.example.com", "https://cdn.example.net/x", 5, ""},
		"Upwards":   {"http://a.example.com", "https://a.example.com/x", 1, ""},
		"Sixth":     {"https://a.example.com", "https://a.example.com/x", 6, "HostNotAllowed: a.example.com redirects more than 5 times"},
		"Downwards": {"https://a.example.com", "http://a.example.com/x", 1, "HostNotAllowed: a.example.com redirects from https to http"},
		"Scheme":    {"https://a.example.com", "file:///etc/passwd", 1, "HostNotAllowed: a.example.com redirects to what is not an https address"},
		"Port":      {"https://a.example.com", "https://b.example.com:25/", 1, "HostNotAllowed: a.example.com redirects to a port that is not allowed"},
	} {
		if got := said(rules.Redirect(parse(t, c.from), parse(t, c.to), c.hop)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
