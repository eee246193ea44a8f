// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

func TestMain(m *testing.M) { os.Exit(sdktest.Main(m, Hook())) }

// TestMemoryIsBounded imports many findings and brings back as many pages as are read of them by default.
// SCANYARD_TEST_FINDINGS changes their number.
func TestMemoryIsBounded(t *testing.T) {
	count := sdktest.HowMany(t, 100_000)
	d := newDojo()
	var arrived, annotated atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/findings.json":
			writeMany(rw, count)
		case path == "/put-findings.json":
			annotated.Store(countTexts(r.Body, `"defectdojo.org/finding-id":`))
		case strings.HasSuffix(path, "/reimport-scan/"):
			arrived.Store(countTexts(r.Body, `"unique_id_from_tool":`))
			fmt.Fprintf(rw, `{"test_id":%v}`, d.tables["tests"].rows[0]["id"])
		case strings.HasSuffix(path, "/findings/"):
			writePage(rw, r, d.tables["tests"].rows[0]["id"], count)
		case strings.HasPrefix(path, "/dojo/"):
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(rw, err.Error(), http.StatusBadRequest)
				return
			}
			reply := d.serve(0, sdktest.Request{Method: r.Method, URL: strings.TrimPrefix(r.URL.RequestURI(), "/dojo"), Header: r.Header, Body: body})
			rw.WriteHeader(reply.Status)
			fmt.Fprint(rw, reply.Body)
		default:
			fmt.Fprint(rw, `{"kind":"Scan","metadata":{"name":"s","namespace":"ns"},"spec":{"scanType":"x"}}`)
		}
	}))
	defer server.Close()
	sdktest.Measure(t, server.URL, []string{"DEFECTDOJO_URL=" + server.URL + "/dojo", "DEFECTDOJO_APIKEY=" + apiKey}, server.URL+"/raw", server.URL+"/findings.json", server.URL+"/put-raw", server.URL+"/put-findings.json")
	if want := int64(min(count, defaultPages*pageSize)); arrived.Load() != int64(count) || annotated.Load() != want {
		t.Errorf("%d findings arrived, %d were annotated, want %d and %d", arrived.Load(), annotated.Load(), count, want)
	}
}

// countTexts counts a text that has no part of a line break, line by line.
func countTexts(r io.Reader, text string) (n int64) {
	in := bufio.NewReader(r)
	for {
		part, err := in.ReadString('}')
		n += int64(strings.Count(part, text))
		if err != nil {
			return n
		}
	}
}

// writePage is a page of DefectDojo's findings.
func writePage(w io.Writer, r *http.Request, test any, count int) {
	offset, err := strconv.Atoi(r.URL.Query().Get("offset"))
	if err != nil {
		return
	}
	page := row{"next": "more", "results": []row{}}
	var rows []row
	for i := offset; i < min(offset+pageSize, count); i++ {
		rows = append(rows, row{"id": i + 1, "test": test, "title": "Open Port: 22", "description": strings.Repeat("d", 300), "severity": "Low", "unique_id_from_tool": fmt.Sprintf("%08d", i)})
	}
	page["results"] = rows
	if offset+pageSize >= count {
		page["next"] = nil
	}
	_ = json.NewEncoder(w).Encode(page) // a client that has gone reads no more
}

func writeMany(w io.Writer, count int) {
	out := bufio.NewWriter(w)
	defer out.Flush()
	text := strings.Repeat("z", 150)
	for i := range count {
		separator := ","
		if i == 0 {
			separator = "["
		}
		fmt.Fprintf(out, `%s{"id":"%08d","name":"Open Port: 22","description":"%s","category":"Open Port","severity":"LOW","location":"tcp://10.0.0.1:22","attributes":{"port":22,"state":"open"}}`, separator, i, text)
	}
	fmt.Fprint(out, "]")
}
