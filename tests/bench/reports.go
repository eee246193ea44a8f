// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/scanyard/scanyard/tests/database"
	"github.com/scanyard/scanyard/tests/localcluster"
)

// Reports says how much is written and asked to compare PolicyReports in etcd with those behind the reports API server.
type Reports struct {
	// Scale divides how much there is: 1 is the whole.
	Scale int
	// Databases are those of the reports API server: sqlite, postgresql.
	Databases []string
}

// tolerance is how far a goal may be missed before the run fails.
const tolerance = 1.15

// row is one line of the comparison. goal is the most that the server may need with SQLite, as a part of what CRDs need; 0 is
// no goal. Other databases are processes of their own, which have to be written to: they are printed without a goal.
type row struct {
	name string
	unit string
	goal float64
	of   func(f *reportFigures) float64
}

const smallRow = "create 1 KB (3 results)"

// accepted is what fails the run in the place of goals that are missed for a reason that is known.
var accepted = map[string]float64{
	smallRow: 1.3, // docs/decisions/2026-11-28-small-reports.md
}

// most is what the server may need before the run fails.
func (r *row) most() float64 {
	if most, ok := accepted[r.name]; ok {
		return most
	}
	return r.goal * tolerance
}

// said is the goal as the table shows it.
func (r *row) said() string {
	if r.goal == 0 {
		return ""
	}
	if most, ok := accepted[r.name]; ok {
		return fmt.Sprintf("%.2f, accepted %.2f", r.goal, most)
	}
	return fmt.Sprintf("%.2f", r.goal)
}

var reportRows = []row{
	{smallRow, "CPU s / 1,000", 1, func(f *reportFigures) float64 { return f.cpu[small] }},
	{"create 10 KB (33 results)", "CPU s / 1,000", 0.7, func(f *reportFigures) float64 { return f.cpu[medium] }},
	{"create 100 KB (330 results)", "CPU s / 1,000", 0.35, func(f *reportFigures) float64 { return f.cpu[large] }},
	{"list 3,000 of 10 KB, whole", "CPU s", 1.5, func(f *reportFigures) float64 { return f.cpu[whole] }},
	{"the same in pages of 500", "CPU s", 1.2, func(f *reportFigures) float64 { return f.cpu[pages] }},
	{"the same as a table", "CPU s", 1.5, func(f *reportFigures) float64 { return f.cpu[table] }},
	{"the same, metadata only", "CPU s", 2.5, func(f *reportFigures) float64 { return f.cpu[metadata] }},
	{"get one of 10 KB", "CPU ms", 1, func(f *reportFigures) float64 { return f.cpu[get1] * 1000 }},
	{"watch with 3,000 first events", "CPU s", 1.3, func(f *reportFigures) float64 { return f.cpu[watch] }},
	{"what kube-apiserver holds more, after all", "MiB", 0.1, func(f *reportFigures) float64 { return f.growth }},
	{"database, after all", "MiB", 0, func(f *reportFigures) float64 { return f.stored }},
	{"the same, of the JSON that was written", "", 0, func(f *reportFigures) float64 { return f.stored / f.written }},
	{"reports server, idle", "MiB", 0, func(f *reportFigures) float64 { return f.idle }},
	{"reports server, at its peak", "MiB", 0, func(f *reportFigures) float64 { return f.peak }},
	{"start of the reports server until it is ready", "CPU s", 0, func(f *reportFigures) float64 { return f.startup }},
}

// limits are what the server itself may need, whatever CRDs do.
var limits = []struct {
	name string
	most float64
	of   func(f *reportFigures) float64
}{
	{"reports server, idle (MiB)", 150, func(f *reportFigures) float64 { return f.idle }},
	{"reports server, at its peak (MiB)", 400, func(f *reportFigures) float64 { return f.peak }},
	{"start until it is ready (CPU s)", 1, func(f *reportFigures) float64 { return f.startup }},
}

// PrintReports measures CRDs in etcd, then the reports API server on each database, each in a cluster of its own, and prints
// the CPU time of all processes that have a part in it. A goal that is missed by more than a seventh is an error, or
// where a miss is accepted, what exceeds that.
func PrintReports(ctx context.Context, o Options, r Reports) error {
	fmt.Fprintf(o.Out, "%d cores, %s; 8 clients; kube-apiserver, etcd, the reports API server and its database together\n", runtime.NumCPU(), runtime.Version())
	columns := append([]string{""}, r.Databases...) // "" is etcd
	var all []*reportFigures
	for _, kind := range columns {
		f, err := measureReports(ctx, o, r, kind)
		if err != nil {
			return fmt.Errorf("measure %q: %w", kind, err)
		}
		all = append(all, f)
	}
	return printReports(o.Out, columns, all)
}

func printReports(out io.Writer, columns []string, all []*reportFigures) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tunit\tCRDs\t")
	for _, database := range columns[1:] {
		fmt.Fprintf(w, "%s\tratio\t", database)
	}
	fmt.Fprintln(w, "goal")
	var missed []string
	for i := range reportRows {
		r := &reportRows[i]
		base := r.of(all[0])
		fmt.Fprintf(w, "%s\t%s\t%.2f\t", r.name, r.unit, base)
		for at, f := range all[1:] {
			value := r.of(f)
			if base == 0 {
				fmt.Fprintf(w, "%.2f\t\t", value)
				continue
			}
			fmt.Fprintf(w, "%.2f\t%.2f\t", value, value/base)
			if r.goal > 0 && columns[at+1] == "sqlite" && value/base > r.most() {
				missed = append(missed, fmt.Sprintf("%s on %s: %.2f of what CRDs need, goal %s", r.name, columns[at+1], value/base, r.said()))
			}
		}
		fmt.Fprintln(w, r.said())
	}
	for _, l := range limits {
		for i, f := range all[1:] {
			if value := l.of(f); value > l.most*tolerance {
				missed = append(missed, fmt.Sprintf("%s on %s: %.2f, goal %.2f", l.name, columns[i+1], value, l.most))
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(missed) > 0 {
		return fmt.Errorf("goals are missed by more than a seventh, or by more than is accepted:\n  %s", strings.Join(missed, "\n  "))
	}
	return nil
}

// measureReports measures one way to keep reports; database "" is etcd.
func measureReports(ctx context.Context, o Options, r Reports, kind string) (*reportFigures, error) {
	cluster, err := localcluster.Start(ctx, localcluster.Options{Binary: filepath.Join(o.Bin, "localcluster"), Timeout: 4 * time.Minute})
	if err != nil {
		return nil, err
	}
	defer cluster.Stop()
	dir, err := os.MkdirTemp("", "scanyard-bench-reports-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	l := &reportLoad{scale: max(r.Scale, 1), cluster: cluster, dir: dir, bin: o.Bin, crds: o.ReportCRDs, figures: &reportFigures{cpu: map[work]float64{}}}
	if kind == "postgresql" {
		if l.database, err = database.PostgreSQL(ctx); err != nil {
			return nil, err
		}
		defer l.database.Stop()
	}
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	if kind == "" {
		err = l.installCRDs(ctx)
	} else {
		err = l.startServer(ctx)
		defer l.stopServer()
	}
	if err != nil {
		return nil, err
	}
	return l.figures, l.run(ctx)
}
