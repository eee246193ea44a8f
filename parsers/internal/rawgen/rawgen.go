// SPDX-License-Identifier: Apache-2.0

package rawgen

import (
	"fmt"
	"io"
	"strings"
)

// generator makes a text piece by piece while it is read.
type generator struct {
	buf  []byte
	left []byte
	next func(dst []byte) []byte // nil result is the end
}

// Read never holds more than one piece.
func (g *generator) Read(p []byte) (int, error) {
	for len(g.left) == 0 {
		g.buf = g.next(g.buf[:0])
		if len(g.buf) == 0 {
			return 0, io.EOF
		}
		g.left = g.buf
	}
	n := copy(p, g.left)
	g.left = g.left[n:]
	return n, nil
}

var services = []string{
	`name="ssh" product="OpenSSH" version="9.2p1 Debian 2+deb12u3" method="probed" conf="10"`,
	`name="http" product="nginx" version="1.26.2" method="probed" conf="10"`,
	`name="https" product="Apache httpd" version="2.4.62" tunnel="ssl" method="probed" conf="10"`,
	`name="smtp" product="Postfix smtpd" method="probed" conf="10"`,
	`name="microsoft-ds" method="table" conf="3"`,
	`name="unknown" method="table" conf="3"`,
}

// Nmap returns nmap XML with so many hosts, each with so many open ports. It makes hosts x (ports + 1) findings, and
// one more per host with banners.
func Nmap(hosts, ports int, banners bool) io.Reader {
	host := -1
	random := uint32(1)
	return &generator{next: func(dst []byte) []byte {
		host++
		switch {
		case host == 0:
			dst = append(dst, `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE nmaprun>
<?xml-stylesheet href="file:///usr/share/nmap/nmap.xsl" type="text/xsl"?>
<nmaprun scanner="nmap" args="nmap -oX out.xml -sV 198.18.0.0/15" version="7.97" xmloutputversion="1.05">
`...)
		case host == hosts:
			return append(dst, "</nmaprun>\n"...)
		case host > hosts:
			return nil
		}
		dst = fmt.Appendf(dst, `<host starttime="1756994850"><status state="up" reason="syn-ack" reason_ttl="0"/>
<address addr="198.%d.%d.%d" addrtype="ipv4"/>
<hostnames>
`, 18+host>>16&1, host>>8&255, host&255)
		if host%2 == 0 {
			dst = fmt.Appendf(dst, "<hostname name=\"host-%d.example.com\" type=\"PTR\"/>\n", host)
		}
		dst = append(dst, "</hostnames>\n<ports>"...)
		for port := 1; port <= ports; port++ {
			random = random*1664525 + 1013904223
			dst = fmt.Appendf(dst, `<port protocol="tcp" portid="%d"><state state="open" reason="syn-ack" reason_ttl="0"/><service %s/>`,
				port, services[random>>16%uint32(len(services))])
			if banners && port == ports {
				dst = append(dst, `<script id="banner" output="220 ready&#xa;"/>`...)
			} else if port%20 == 7 {
				dst = append(dst, `<script id="http-title" output="Welcome &amp; hello"/>`...)
			}
			dst = append(dst, "</port>\n"...)
		}
		return append(dst, "</ports>\n<times srtt=\"12345\" rttvar=\"678\" to=\"100000\"/>\n</host>\n"...)
	}}
}

// Gitleaks returns a gitleaks report with so many leaks.
func Gitleaks(leaks int) io.Reader {
	i := -1
	return &generator{next: func(dst []byte) []byte {
		i++
		switch {
		case i == 0 && leaks == 0:
			return append(dst, "[]\n"...)
		case i == leaks:
			return append(dst, "\n]\n"...)
		case i > leaks:
			return nil
		case i == 0:
			dst = append(dst, "[\n"...)
		default:
			dst = append(dst, ",\n"...)
		}
		return fmt.Appendf(dst, ` {
  "Description": "Generic API Key",
  "StartLine": %d,
  "EndLine": %d,
  "StartColumn": 11,
  "EndColumn": 45,
  "Match": "key: \"not-a-key-%d\"",
  "Secret": "not-a-key-%d",
  "File": "src/module-%d/config.yaml",
  "SymlinkFile": "",
  "Commit": "%040x",
  "Entropy": 4.1375375,
  "Author": "A. Author",
  "Email": "author@example.com",
  "Date": "2026-01-06T15:19:51Z",
  "Message": "Use a key for testing",
  "Tags": ["key"],
  "RuleID": "generic-api-key",
  "Fingerprint": "%040x:src/module-%d/config.yaml:generic-api-key:%d"
 }`, i%977, i%977, i, i, i%1000, i, i, i%1000, i%977)
	}}
}

// List is start, an element so many times with commas between, and end.
func List(start, element string, n int, end string) io.Reader {
	return io.MultiReader(strings.NewReader(start+element),
		io.LimitReader(Endless(","+element), int64(n-1)*int64(len(element)+1)), strings.NewReader(end))
}

// Endless repeats a text for ever.
func Endless(text string) io.Reader {
	return &generator{next: func(dst []byte) []byte {
		for len(dst) < 1<<15 {
			dst = append(dst, text...)
		}
		return dst
	}}
}
