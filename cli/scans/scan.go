// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/view"
)

// createOptions are the flags of scan.
type createOptions struct {
	name        string
	from        string
	clusterWide bool
	labels      []string
	annotations []string
	ttl         string
	priority    int
	wait        bool
	dryRun      bool
	noCheck     bool
	waitOptions
	output *output.Flags
}

// NewScanCommand makes the command scan.
func NewScanCommand(s *session.Session) *cobra.Command {
	o := &createOptions{waitOptions: waitOptions{session: s}, output: output.New(s, "created", false)}
	cmd := &cobra.Command{
		Use:   "scan [TYPE] [flags] -- PARAMETERS...",
		Short: "Start a scan",
		Long: `Start a scan of a type, with the parameters of its scanner.

TYPE is a ScanType of the namespace, such as nmap, or with --cluster-wide a
ClusterScanType. Everything after -- goes to the scanner as it stands, one argument
each; no shell is involved.

With --from the scan is one of a file, for what no flag covers: volumes, init
containers, cascades, hook selectors. Flags, TYPE and PARAMETERS replace what it says.

The scan is called like its type, or TYPE-xxxxx where that name is taken, or as
--name says. Without --wait or --follow the command returns as soon as it is created.
With --wait it shows how the scan gets on: on a terminal a block that is drawn over,
elsewhere a line for each change. It lasts over restarts of the operator and of the
API server. Ctrl-C ends the watching, not the scan.

Findings that an exception suppresses do not count for --fail-on.

Exit codes: 0 done, 1 errored, 2 findings of the severity of --fail-on or above,
3 --timeout has passed, 4 with --fail-on: the scanner reached nothing.`,
		Example: `  # Start a scan and return
  {{program}} scan nmap -- -sV scanme.nmap.org

  # See how it gets on, with a bound, and fail a pipeline on serious findings
  {{program}} scan trivy-image --timeout 15m --fail-on high -- registry.example.com/app:1.2

  # Read what scanner, parser and hooks write
  {{program}} scan nmap --name nightly-check --follow -- -p 443 www.example.com

  # A type that is installed for the whole cluster; delete the scan a day after its end
  {{program}} scan nmap --cluster-wide --ttl 24h --label team=blue -- scanme.nmap.org

  # Only print what would be created, as the beginning of a file
  {{program}} scan nmap --dry-run -o yaml -- scanme.nmap.org > scan.yaml

  # Start the scan of a file
  {{program}} scan --from scan.yaml --wait`,
		Args:              o.typeAndParameters,
		ValidArgsFunction: complete.ScanTypes(s),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args, cmd.ArgsLenAtDash()) },
	}
	cmd.SetFlagErrorFunc(o.unknownFlag)
	flags := cmd.Flags()
	flags.StringVar(&o.from, "from", "", "take the scan from this file, YAML or JSON; - is stdin")
	flags.IntVar(&o.priority, "priority", 0, "where the namespace orders its queue by priority: higher goes first")
	flags.BoolVar(&o.noCheck, "no-check", false, "create the scan also where its type is not installed (yet)")
	o.bindCreate(cmd)
	return cmd
}

// bindCreate adds the flags of all commands that make a Scan.
func (o *createOptions) bindCreate(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "name of the scan (default: that of its type)")
	flags.BoolVar(&o.clusterWide, "cluster-wide", false, "use the ClusterScanType, and the parsers and hooks of the whole cluster (resourceMode clusterWide)")
	flags.BoolVarP(&o.wait, "wait", "w", false, "show how the scan gets on until its end")
	flags.StringArrayVarP(&o.labels, "label", "l", nil, "label of the scan as KEY=VALUE; may be repeated")
	flags.StringArrayVar(&o.annotations, "annotation", nil, "annotation of the scan as KEY=VALUE; may be repeated")
	flags.StringVar(&o.ttl, "ttl", "", "delete the scan with its results this long after its end, such as 24h (default: keep it)")
	flags.BoolVar(&o.dryRun, "dry-run", false, "let the API server check the scan, but do not create it")
	o.bind(cmd)
	o.output.Bind(cmd)
}

// typeAndParameters returns an error for missing and misplaced arguments.
func (o *createOptions) typeAndParameters(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case (len(args) == 0 || dash == 0) && o.from == "":
		return fmt.Errorf("the type of the scan is missing: %s TYPE -- PARAMETERS", cmd.CommandPath())
	case dash > 1:
		return o.behind(cmd, fmt.Errorf("there is more than a type before --: %s", view.Quoted(args[1:dash])))
	case dash < 0 && len(args) > 1:
		return o.behind(cmd, fmt.Errorf("there is more than a type: %s", view.Quoted(args[1:])))
	}
	return o.namespace(cmd)
}

func isNamespace(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// namespace refuses an invalid name of a namespace before a request is sent: -n is an option of scanners, too.
func (o *createOptions) namespace(cmd *cobra.Command) error {
	flag := o.session.ConfigFlags.Namespace
	if flag == nil || *flag == "" || isNamespace(*flag) {
		return nil
	}
	return o.behind(cmd, fmt.Errorf("-n %s: that is not a valid name of a namespace", view.Quoted([]string{*flag})))
}

func (o *createOptions) run(ctx context.Context, args []string, dash int) error {
	if err := errors.Join(o.check(), o.output.Check()); err != nil {
		return err
	}
	scan, err := o.build(args, dash)
	if err != nil {
		return err
	}
	c, namespace, err := o.session.Connect()
	if err != nil {
		return err
	}
	if flag := o.session.ConfigFlags.Namespace; scan.Namespace == "" || flag != nil && *flag != "" {
		scan.Namespace = namespace
	}
	if !o.noCheck {
		if err := checkType(ctx, o.session, c, scan); err != nil {
			return err
		}
	}
	if err := o.create(ctx, c, scan); err != nil {
		return o.session.Explain(err)
	}
	return o.finish(ctx, c, scan)
}

// finish prints the Scan that was made, or waits for its end, as the flags say.
func (o *createOptions) finish(ctx context.Context, c client.WithWatch, scan *executionv1.Scan) error {
	if o.dryRun {
		return o.printDry(scan)
	}
	if !o.wait && !o.isSet() {
		return o.output.Print(o.session, scan)
	}
	if !o.output.Set() {
		fmt.Fprintf(o.out(), "scan/%s created\n", scan.Name)
		_, err := o.waitOptions.run(ctx, c, scan)
		return err
	}
	o.toStderr = true
	final, err := o.waitOptions.run(ctx, c, scan)
	if final == nil {
		return err
	}
	return errors.Join(o.output.Print(o.session, final), err)
}

// build makes the Scan that the flags describe. dash is the index of -- among the arguments.
func (o *createOptions) build(args []string, dash int) (*executionv1.Scan, error) {
	scan := &executionv1.Scan{Spec: executionv1.ScanSpec{Parameters: []string{}}}
	if o.from != "" {
		read, err := readScan(o.session.In, o.from)
		if err != nil {
			return nil, err
		}
		scan = read
	}
	if len(args) > 0 && dash != 0 {
		scan.Spec.ScanType, args = args[0], args[1:]
	}
	if len(args) > 0 || dash >= 0 {
		scan.Spec.Parameters = append([]string{}, args...)
	}
	if o.name != "" {
		if problems := validation.IsDNS1123Subdomain(o.name); len(problems) > 0 {
			return nil, fmt.Errorf("--name %q is not a valid name of an object: %s", o.name, strings.Join(problems, "; "))
		}
		scan.Name, scan.GenerateName = o.name, ""
	}
	if o.priority != 0 {
		scan.Spec.Priority = new(int32(o.priority))
	}
	if o.clusterWide {
		scan.Spec.ResourceMode = ptr.To(executionv1.ClusterWide)
	}
	var err error
	if scan.Labels, err = pairs("--label", o.labels, scan.Labels); err != nil {
		return nil, err
	}
	if scan.Annotations, err = pairs("--annotation", o.annotations, scan.Annotations); err != nil {
		return nil, err
	}
	if o.ttl != "" {
		seconds, err := seconds(o.ttl)
		if err != nil {
			return nil, fmt.Errorf("--ttl %q: %w", o.ttl, err)
		}
		scan.Spec.TTLSecondsAfterFinished = &seconds
	}
	return scan, nil
}

// pairs adds KEY=VALUE to a map.
func pairs(flag string, values []string, to map[string]string) (map[string]string, error) {
	out := maps.Clone(to)
	if out == nil && len(values) > 0 {
		out = map[string]string{}
	}
	for _, v := range values {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%s %q must be KEY=VALUE", flag, v)
		}
		out[key] = value
	}
	return out, nil
}

// seconds reads a duration such as 24h, or a number of seconds.
func seconds(text string) (int32, error) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 {
		return int32(n), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d.Seconds() > 1<<31-1 {
		return 0, errors.New("must be a time such as 30m or 24h, or a number of seconds")
	}
	return int32(d.Seconds()), nil
}

// createTimeout bounds the one write of the command. Ctrl-C does not interrupt the write: otherwise the
// user would not know whether the Scan exists.
const createTimeout = 30 * time.Second

// create creates the Scan. Without --name it takes the name of the type, as scbctl does, and a generated
// name where that one is taken.
func (o *createOptions) create(ctx context.Context, c client.Client, scan *executionv1.Scan) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	var opts []client.CreateOption
	if o.dryRun {
		opts = append(opts, client.DryRunAll)
	}
	unnamed := scan.Name == "" && scan.GenerateName == ""
	if unnamed {
		scan.Name = scan.Spec.ScanType
	}
	first := scan.DeepCopy()
	err := c.Create(ctx, scan, opts...)
	if unnamed && apierrors.IsAlreadyExists(err) {
		*scan = *first
		scan.Name, scan.GenerateName = "", scan.Spec.ScanType+"-"
		err = c.Create(ctx, scan, opts...)
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf(
			"there is a scan %q in namespace %s already: choose another --name, or delete it with: %s",
			scan.Name, scan.Namespace, o.session.Suggest("delete", scan.Name),
		)
	case err != nil:
		return fmt.Errorf("create scan: %w", err)
	}
	return nil
}
