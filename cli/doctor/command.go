// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
)

type checkup struct {
	session           *session.Session
	operatorNamespace string
	scanType          string
	clusterWide       bool
	noScan            bool
	keep              bool
	timeout           time.Duration
	results           results.Options

	failed, warned int
}

// testType is the default type of the test scan: its chart is there to try an installation out.
const testType = "test-scan"

// NewDoctorCommand makes the command doctor.
func NewDoctorCommand(s *session.Session) *cobra.Command {
	d := &checkup{session: s}
	cmd := &cobra.Command{
		Use:   "doctor [flags] [-- PARAMETERS...]",
		Short: "Check an installation from end to end, and say what to do",
		Long: `Check an installation from end to end: the API server, Scanyard's kinds, the operator,
your rights in the namespace, what holds pods back from their nodes, the scanners that are
installed, and with a test scan that images can be pulled, that pods reach object storage,
and that you do. The test scan is deleted again, and so is what it has stored.

The test scan is of type test-scan, which finds nothing, where that is installed. Any
other type will do: name it with --type, and its parameters behind --.

Exit codes: 0 all is well, or only warnings; 1 something does not work.`,
		Example: `  # From the place of a team
  {{program}} doctor -n team-blue

  # With a scanner that is installed
  {{program}} doctor --type nmap -- -p 443 localhost

  # Without a scan
  {{program}} doctor --no-scan`,
		Args:              parametersOnly,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&d.operatorNamespace, "operator-namespace", "", "where the operator is (default: looked for in all namespaces)")
	flags.StringVar(&d.scanType, "type", "", "type of the test scan (default: test-scan, where it is installed)")
	flags.BoolVar(&d.clusterWide, "cluster-wide", false, "take a ClusterScanType for the test scan")
	flags.BoolVar(&d.noScan, "no-scan", false, "leave out the test scan")
	flags.BoolVar(&d.keep, "keep", false, "do not delete the test scan")
	flags.DurationVar(&d.timeout, "timeout", 3*time.Minute, "how long the test scan may take")
	d.results.BindFlags(flags)
	return cmd
}

func parametersOnly(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		return fmt.Errorf("%q: parameters of the test scan stand behind --", args[0])
	}
	return nil
}

var gradePaint = map[Grade]session.Paint{OK: session.Good, Warn: session.Warn, Fail: session.Bad, Skip: session.Quiet}

// report prints a result as soon as it is known.
func (d *checkup) report(v Result) {
	switch v.Grade {
	case Fail:
		d.failed++
	case Warn:
		d.warned++
	case OK, Skip:
	}
	s := d.session
	grade, check := fmt.Sprintf("%-4s", v.Grade), fmt.Sprintf("  %-19s ", v.Check)
	start := len(grade) + len(check)
	output.Hang(s, s.Out, s.Paint(gradePaint[v.Grade], grade)+check, start, v.Says)
	if v.Remedy != "" && v.Grade != OK {
		output.Hang(s, s.Out, strings.Repeat(" ", start)+s.Paint(session.Note, "→")+" ", start+2, v.Remedy)
	}
}

func (d *checkup) run(ctx context.Context, parameters []string) error {
	namespace, err := d.session.Namespace()
	if err != nil {
		return err
	}
	clients, err := d.session.Clientset()
	if err != nil {
		return err
	}
	server := checkServer(clients, d.session)
	d.report(server)
	if server.Grade == Fail {
		return d.end()
	}
	kinds := checkKinds(clients)
	d.report(kinds)
	if kinds.Grade == Fail {
		return d.end()
	}
	c, err := d.session.Client()
	if err != nil {
		return err
	}
	d.report(checkOperator(ctx, c, d.operatorNamespace))
	d.report(checkRights(ctx, clients, namespace))
	d.report(checkPodSecurity(ctx, clients, namespace))
	if v, installed := checkReports(ctx, c); installed {
		d.report(v)
	}
	types, local, cluster := checkTypes(ctx, c, namespace)
	d.report(types)
	if !d.noScan {
		if err := d.scan(ctx, c, namespace, local, cluster, parameters); err != nil {
			return err
		}
	}
	return d.end()
}

// scan chooses the type of the test scan and runs it.
func (d *checkup) scan(ctx context.Context, c client.WithWatch, namespace string, local, cluster, parameters []string) error {
	name := d.scanType
	if name == "" {
		name = testType
		switch {
		case slices.Contains(local, name) && !d.clusterWide:
		case slices.Contains(cluster, name):
			d.clusterWide = true
		default:
			d.report(Result{
				"test scan", Skip, "the type test-scan is not installed",
				fmt.Sprintf("install it: helm install test-scan charts/test-scan --namespace %s; or name another type with --type", namespace),
			})
			return nil
		}
	}
	t := &probe{checkup: d, client: c, namespace: namespace, scanType: name, parameters: parameters}
	return t.run(ctx)
}

// end sums up, and returns the error with the exit code.
func (d *checkup) end() error {
	switch {
	case d.failed > 0:
		return session.Exit(session.CodeErrored, fmt.Errorf("%d of the checks failed", d.failed))
	case d.warned > 0:
		fmt.Fprintln(d.session.Out, "It works, with warnings.")
	default:
		fmt.Fprintln(d.session.Out, "All is well.")
	}
	return nil
}
