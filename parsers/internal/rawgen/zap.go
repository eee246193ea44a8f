// SPDX-License-Identifier: Apache-2.0

package rawgen

import (
	"fmt"
	"io"
)

// Zap returns ZAP's traditional XML report with so many alerts of five instances each, spread over ten sites.
func Zap(alerts int) io.Reader {
	const sites, instances = 10, 5
	i, site := -1, -1
	r := random(1)
	return &generator{next: func(dst []byte) []byte {
		i++
		switch {
		case i == 0:
			dst = append(dst, `<?xml version="1.0"?><OWASPZAPReport programName="ZAP" version="2.17.0" generated="Thu, 4 Sep 2025 14:07:30">`+"\n"...)
		case i > alerts:
			return nil
		}
		if i == alerts {
			if site >= 0 {
				dst = append(dst, "</alerts></site>\n"...)
			}
			return append(dst, "</OWASPZAPReport>\n"...)
		}
		if next := i * sites / alerts; next > site {
			if site >= 0 {
				dst = append(dst, "</alerts></site>\n"...)
			}
			site = next
			dst = fmt.Appendf(dst, `<site name="http://app-%d.example.com:3000" host="app-%d.example.com" port="3000" ssl="false"><alerts>`, site, site)
		}
		return zapAlert(dst, &r, i, site, instances)
	}}
}

func zapAlert(dst []byte, r *random, i, site, instances int) []byte {
	name := string(r.sentence(nil, 5))
	dst = fmt.Appendf(dst, "<alertitem>\n  <pluginid>%d</pluginid>\n  <alertRef>%d-%d</alertRef>\n  <alert>%s</alert>\n  <name>%s</name>\n"+
		"  <riskcode>%d</riskcode>\n  <confidence>%d</confidence>\n  <riskdesc>Medium (Low)</riskdesc>\n  <desc>&lt;p&gt;",
		10000+i%300, 10000+i%300, i%5, name, name, i%4, 1+i%3)
	dst = append(r.sentence(dst, 25), "&lt;/p&gt;</desc>\n  <instances>\n"...)
	for n := range instances {
		dst = fmt.Appendf(dst, "  <instance>\n  <uri>http://app-%d.example.com:3000/%s/%d?a=%d&amp;b=1</uri>\n  <method>GET</method>\n"+
			"  <param></param>\n  <attack></attack>\n  <evidence>%s</evidence>\n  <otherinfo></otherinfo>\n  </instance>\n",
			site, r.word(), i, n, r.word())
	}
	dst = fmt.Appendf(dst, "  </instances>\n  <count>%d</count>\n  <solution>&lt;p&gt;", instances)
	dst = append(r.sentence(dst, 20), "&lt;/p&gt;</solution>\n  <otherinfo>&lt;p&gt;"...)
	dst = append(r.sentence(dst, 15), "&lt;/p&gt;</otherinfo>\n  <reference>"...)
	for n := range 2 {
		dst = fmt.Appendf(dst, "&lt;p&gt;https://ref.example.org/%d/%d&lt;/p&gt;", i, n)
	}
	cwe := 20 + i%900
	if i%9 == 0 {
		cwe = -1
	}
	return fmt.Appendf(dst, "</reference>\n  <cweid>%d</cweid>\n  <wascid>%d</wascid>\n  <sourceid>3</sourceid>\n</alertitem>\n", cwe, 1+i%40)
}
