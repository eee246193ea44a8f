// SPDX-License-Identifier: Apache-2.0

package sslyze

import (
	"io"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

const server = `{"connectivity_status":"COMPLETED","server_location":{"hostname":"h","ip_address":"192.0.2.1","port":443},` +
	`"scan_result":{"ssl_2_0_cipher_suites":{},"ssl_3_0_cipher_suites":{},"tls_1_0_cipher_suites":{},"tls_1_1_cipher_suites":{},` +
	`"tls_1_2_cipher_suites":{},"tls_1_3_cipher_suites":{"result":{"accepted_cipher_suites":[{"cipher_suite":{"openssl_name":"a"}}]}}}}`

func TestHostileReports(t *testing.T) {
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"TwoGiBOfText":    {Start: `{"server_scan_results":[{"uuid":"`, Endless: "a", Want: "element too large: more than 16777216 bytes"},
		"EndlessServer":   {Start: `{"server_scan_results":[{"a":[1`, Endless: ",1", Want: ": element too large"},
		"EndlessServers":  {Start: `{"server_scan_results":[{}`, Endless: ",{}", Want: "the input ends too early"},
		"DeeplyNested":    {Start: `{"server_scan_results":[`, Endless: `[`, Want: "exceeded max depth"},
		"HTML":            {Start: `<html></html>`, Want: "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":          {Start: "\x1f\x8b\x08", Want: "the input is not JSON"},
		"Null":            {Start: `null`, Want: "the report is null"},
		"Truncated":       {Start: `{"server_scan_results":[` + server, Want: "the input ends too early"},
		"SecondTruncated": {Start: `{"server_scan_results":[` + server + `,{"a"`, Want: "at /server_scan_results/1/a: the input ends too early"},
		"NoLocation":      {Start: `{"server_scan_results":[{}]}`, Want: "the first server result: has no server_location"},
		"NoResult":        {Start: `{"server_scan_results":[{"server_location":{}}]}`, Want: "the first server result: has no scan_result"},
		"NoSuites":        {Start: `{"server_scan_results":[{"server_location":{},"scan_result":{}}]}`, Want: "has no ssl_2_0_cipher_suites"},
		"BadDate":         {Start: `{"server_scan_results":[` + server + `],"date_scans_completed":"soon"}`, Want: `date_scans_completed "soon" is not a date`},
		"ServersNoArray":  {Start: `{"server_scan_results":{"a":1}}`, Want: "server_scan_results is an object, must be an array"},
		"AfterTheReport":  {Start: `{"server_scan_results":[]}[]`, Want: "data after the end"},
	})
}

func TestOnlyTheFirstOfManyServersCounts(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return many(20_000) }})
	if err != nil || n != 2 {
		t.Errorf("got %d findings, %v", n, err)
	}
}

func many(servers int) io.Reader {
	return rawgen.List(`{"server_scan_results":[`, server, servers, `],"date_scans_completed":"2026-03-01T12:30:15Z"}`)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{}", `{"server_scan_results":[]}`, `{"server_scan_results":[` + server + `],"date_scans_completed":"2026-03-01"}`,
		`{"server_scan_results":[{"connectivity_status":"ERROR"},7]}`, `{"server_scan_results":[null]}`, `{"server_scan_results":[`,
		`{"server_scan_results":[` + strings.Replace(server, `"scan_result":{`, `"scan_result":{"certificate_info":{"result":`+
			`{"certificate_deployments":[{"received_certificate_chain":[{"subject":{},"issuer":{}}],"path_validation_results":`+
			`[{"trust_store":{"name":"a"},"validation_error":"cert is not valid at validation time"}]}]}},`, 1) + `]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	sdktest.Benchmark(b, Parser(), func() io.Reader { return many(1000) })
}
