// SPDX-License-Identifier: Apache-2.0

package marks_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/findings/exception/exceptiontest"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// BenchmarkMarks measures a server with 10,000 reports of 5 results each: the first look at all of them, a look that finds nothing to
// do, an exception that marks a result of each, and the report of one Scan beside them. It is run once: -benchtime 1x.
func BenchmarkMarks(b *testing.B) {
	const reports, results = 10_000, 5
	h := newHouse(b, dbtest.New(b, sqldb.SQLite))
	all := []string{exceptiontest.Finding}
	for i := range results - 1 {
		all = append(all, strings.ReplaceAll(other, `"curl"`, fmt.Sprintf(`"curl %d"`, i)))
	}
	for i := range reports {
		h.put(fmt.Sprintf("r-%05d", i), nil, nil, all...)
	}
	look := func(what string) {
		b.Helper()
		runtime.GC()
		begun := time.Now()
		h.must(h.marker.Once(b.Context()))
		b.ReportMetric(float64(time.Since(begun).Microseconds())/1000, what+"-ms")
	}
	look("first")
	look("nothing-to-do")
	h.source.set(excepting("one", nil))
	look("all-marked")
	h.put("one-more", nil, nil, all...)
	look("one-report")
	b.ReportMetric(usage.OfT(b, os.Getpid()).PeakMiB(), "peak-MiB")
}
