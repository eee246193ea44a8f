// SPDX-License-Identifier: Apache-2.0

// Command bench measures the operator with Scans whose pods end at once: what it uses, and
// how fair it is between namespaces.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/bench"
)

const usage = `bench [flags]
bench fairness [flags]
bench memory [flags]
bench reports [flags]
bench console [flags]
bench scale [flags]
bench compare OURS PEER

bench lets Scans run whose pods end at once, and prints what the operator did and used.

Columns: finished Scans after the step, Scans added by it, Scans finished per second,
pods made per Scan, writes of the operator to the API server per Scan and its reads
there (past its cache), its CPU time and that of the API server per Scan, its memory
now and at its peak, and how long it took from the end of a scanner Job, as a watch
shows it, until the next Job of the Scan was there: the parser's, or the first hook's where
the parser runs in the scanner's pod.

bench fairness lets one namespace flood the queue, and compares how long others take
for a few Scans beside it and on an idle cluster.

bench memory lets a tenant create suspended Scans of the largest size, and prints the
memory of the operator with them, and after a restart.

bench reports writes, lists and watches PolicyReports as CRDs in etcd, then in the
reports API server on each database, and prints what all processes used for it. It ends
with 1 where a goal is missed by more than a seventh, or where that is accepted, by more
than is accepted.

bench console fills a reports API server, has one viewer look at each page of the
console, and then many at once, and prints how long pages take and what the console uses.

bench scale lets Scans run to their end, begins others that never end, and prints the memory
of the operator with both, how fast a few more go through, how long a list of all takes, and
how long the operator takes to work again after a restart.

bench compare prints two files of -summary side by side, with the ratios and goals of what
a Scan with one hook may cost.

Flags:
`

// addFlags adds the flags of what is measured of the operator.
func addFlags(o *bench.Options) {
	flag.IntVar(&o.InFlight, "in-flight", 1000, "how many Scans are on their way at the most")
	flag.IntVar(&o.Workers, "workers", 16, "workers of the operator")
	flag.IntVar(&o.QPS, "qps", 2000, "requests per second that the operator may make")
	flag.IntVar(&o.JobSyncs, "job-syncs", 10, "Jobs that the Job controller handles at a time; 10 is Kubernetes' default")
	flag.IntVar(&o.SimNodes, "sim-nodes", 10, "nodes that simulate pods")
	flag.StringVar(&o.Profile, "profile", "", "`file` for the operator's heap profile after the last step (go tool pprof)")
	flag.StringVar(&o.CPUProfile, "cpu-profile", "", "`file` for a CPU profile of the operator's first 30 s with Scans (go tool pprof)")
	flag.StringVar(&o.APICPUProfile, "api-cpu-profile", "", "`file` for a CPU profile of kube-apiserver in the same time (go tool pprof)")
	flag.IntVar(&o.Hooks, "hooks", 0, "hooks of each Scan, which run one after another")
	flag.StringVar((*string)(&o.ScanAccess), "scan-access", string(executionv1.ScanAccessHandover),
		"how parsers and hooks reach their Scan: Handover or API, which is that of secureCodeBox's images")
	flag.DurationVar(&o.PodStartDelay, "pod-start-delay", 0, "how long pods take to start; above 0 the time from a scanner's end to findings is printed as well")
	flag.StringVar(&o.Peer, "peer", "", "`program` of secureCodeBox's operator, measured instead of ours; hack/side-by-side.sh measures both")
	flag.StringVar(&o.Summary, "summary", "", "`file` for the figures of the last step as JSON")
	flag.StringVar((*string)(&o.Phases), "phases", string(executionv1.PhasesFused),
		"Fused runs parsers in the scanner's pod where the operator can, as our charts have it; Separate gives each a pod of its own")
	flag.BoolVar(&o.Requests, "requests", false, "also print who made which requests to the API server, by its audit log, which costs it time")
}

func main() {
	log.SetLogger(logr.Discard()) // that of a library, which complains if there is none
	var o bench.Options
	root := flag.String("root", ".", "`folder` of the repository")
	addFlags(&o)
	sizes := flag.String("n", "1000,10000", "`numbers` of finished Scans after each step")
	crds := flag.String("crds", "", "`folder` of the CRDs; that of the chart by default")
	bin := flag.String("bin", "", "`folder` of the programs; bin in that of the repository by default")
	var f bench.Fairness
	flag.IntVar(&f.Tenants, "tenants", 99, "fairness: small namespaces")
	flag.IntVar(&f.Each, "each", 10, "fairness: Scans of each")
	flag.IntVar(&f.Flood, "flood", 9000, "fairness: Scans of the namespace with many")
	var m bench.Memory
	flag.IntVar(&m.KiB, "kib", 240, "memory: size of the spec of each Scan; 256 is the most that one may have")
	flag.IntVar(&o.Limit, "limit", 0, "Scans that the cluster runs at a time; 0 for no limit, for fairness 50")
	s := bench.Scale{Probe: 50}
	flag.IntVar(&s.Ended, "ended", 1000, "scale: Scans that run to their end and are kept")
	flag.IntVar(&s.Copied, "copied", 0, "scale: further Scans that have ended, written as copies of one, with their Jobs; 100000 for the full size")
	flag.IntVar(&s.InFlight, "held", 1000, "scale: Scans that have begun and do not end; 10000 for the full size")
	var r bench.Reports
	flag.IntVar(&r.Scale, "divide", 1, "reports: the `number` by which all amounts are divided")
	databases := flag.String("databases", "sqlite,postgresql", "reports: databases of the reports API server")
	var c bench.Console
	flag.IntVar(&c.Reports, "reports", 20, "console: thousands of findings; 1000 for what the contract says")
	flag.IntVar(&c.Scans, "scans", 200, "console: Scans that there are")
	flag.IntVar(&c.Viewers, "viewers", 100, "console: who looks at once; 0 for one viewer alone")
	flag.DurationVar(&c.For, "for", 30*time.Second, "console: how long they look")
	flag.IntVar(&c.Visits, "visits", 40, "console: how often one viewer looks at each page")
	flag.StringVar(&c.Filler, "filler", "", "console: `program` that fills databases: go test -c of reports/internal/bench; bin/reports-filler by default")
	flag.BoolVar(&c.Export, "export", true, "console: export all findings as CSV in the end")
	flag.StringVar(&c.Filled, "filled", "", "console: SQLite `file` that is copied instead of filling one again; the first run keeps it there")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage); flag.PrintDefaults() }
	args := os.Args[1:]
	mode := ""
	if len(args) > 0 && slices.Contains([]string{"fairness", "memory", "reports", "console", "compare", "scale"}, args[0]) {
		mode, args = args[0], args[1:]
	}
	if err := flag.CommandLine.Parse(args); err != nil {
		os.Exit(2) // never: the flag set exits by itself
	}
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || len(o.Sizes) > 0 && n <= o.Sizes[len(o.Sizes)-1] {
			fmt.Fprintf(os.Stderr, "bench: -n %q must be growing numbers, such as 1000,10000\n", *sizes)
			os.Exit(2)
		}
		o.Sizes = append(o.Sizes, n)
	}
	r.Databases, o.ReportCRDs = strings.Split(*databases, ","), filepath.Join(*root, "apis", "testdata", "reportcrds")
	o.Bin, o.CRDs, o.Out = cmp.Or(*bin, filepath.Join(*root, "bin")), cmp.Or(*crds, filepath.Join(*root, "charts", "scanyard", "crds")), os.Stdout
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	var err error
	switch mode {
	case "fairness":
		f.Limit = cmp.Or(o.Limit, 50)
		err = bench.PrintFairness(ctx, o, f)
	case "memory":
		err = bench.PrintMemory(ctx, o, m)
	case "scale":
		err = bench.PrintScale(ctx, o, s)
	case "compare":
		err = compare(flag.Args())
	case "reports":
		err = bench.PrintReports(ctx, o, r)
	case "console":
		c.Database = r.Databases[0]
		c.Filler = cmp.Or(c.Filler, filepath.Join(o.Bin, "reports-filler"))
		err = bench.PrintConsole(ctx, o, c)
	default:
		err = bench.Run(ctx, o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// compare prints the figures of two files side by side.
func compare(files []string) error {
	if len(files) != 2 {
		return errors.New("compare takes the files of two runs with -summary: ours, and the peer's")
	}
	ours, err := bench.ReadSummary(files[0])
	if err != nil {
		return err
	}
	peers, err := bench.ReadSummary(files[1])
	if err != nil {
		return err
	}
	bench.Compare(os.Stdout, &ours, &peers)
	return nil
}
