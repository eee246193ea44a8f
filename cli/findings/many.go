// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/exceptions"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/view"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/findings/scanview"
)

// choice chooses several Scans instead of one by its name.
type choice struct {
	selector     string
	all, allRuns bool
}

func (c *choice) bindFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&c.selector, "selector", "l", "", "the findings of all Scans with these labels, such as team=blue,env!=dev, instead of one Scan")
	flags.BoolVarP(&c.all, "all-namespaces", "A", false, "the findings of the Scans of all namespaces")
	flags.BoolVar(&c.allRuns, "all-runs", false, "with -l or -A: of each run of a schedule or a target, not of the last one only")
}

// isSet reports whether several Scans are meant.
func (c *choice) isSet() bool { return c.selector != "" || c.all }

// check refuses what does not go together.
func (c *choice) check(o *findingsOptions, args []string) error {
	switch {
	case len(args) == 0 && !c.isSet():
		return errors.New("name a Scan, or choose several with --selector or --all-namespaces")
	case len(args) > 0 && c.isSet():
		return errors.New("the name of a Scan goes neither with --all-namespaces nor with --selector")
	case c.allRuns && !c.isSet():
		return errors.New("--all-runs goes with --selector or --all-namespaces")
	case c.isSet() && (o.onlyNew || o.against != ""):
		return errors.New("--new and --against compare one Scan with another: name it")
	case c.isSet() && !o.output.isTable() && !slices.Contains([]string{formatJSON, formatLines, formatYAML}, o.output.format):
		return fmt.Errorf("-o %s is made of one Scan; of several there are the formats table, wide, json, jsonl and yaml", o.output.format)
	}
	if _, err := labels.Parse(c.selector); err != nil {
		return fmt.Errorf("--selector %q: %w", c.selector, err)
	}
	return nil
}

// list returns the Scans that are Done, the newest first.
func (c *choice) list(ctx context.Context, from client.Client, namespace string) ([]*executionv1.Scan, error) {
	selector, err := labels.Parse(c.selector)
	if err != nil {
		return nil, err
	}
	if c.all {
		namespace = ""
	}
	var done []*executionv1.Scan
	list := &executionv1.ScanList{}
	wanted := &client.ListOptions{Namespace: namespace, LabelSelector: selector, Limit: 500}
	for {
		wanted.Continue = list.Continue
		if err := from.List(ctx, list, wanted); err != nil {
			return nil, fmt.Errorf("list scans: %w", err)
		}
		for i := range list.Items {
			if s := &list.Items[i]; s.Status.State == executionv1.ScanStateDone {
				done = append(done, s.DeepCopy())
			}
		}
		if list.Continue == "" {
			break
		}
	}
	slices.SortStableFunc(done, func(a, b *executionv1.Scan) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	if c.allRuns {
		return done, nil
	}
	return scanview.Latest(done), nil
}

// source is a Scan whose findings are printed among those of others.
type source struct {
	scan *executionv1.Scan
	in   report.Input
}

// runMany prints the findings of several Scans.
func (o *findingsOptions) runMany(ctx context.Context, failOn report.Threshold, wanted func(*report.Entry) bool) (err error) {
	c, namespace, err := o.session.Connect()
	if err != nil {
		return err
	}
	scans, err := o.choice.list(ctx, c, namespace)
	if err != nil {
		return o.session.Explain(err)
	}
	reader, err := results.New(o.session, c, o.reading)
	if err != nil {
		return err
	}
	load := exceptions.NewLoader(o.session, c)
	var sources []source
	for _, scan := range scans {
		from := reader.Source(scan, !o.output.isOnce())
		defer func() { err = errors.Join(err, from.Close()) }()
		one := source{scan, report.Input{Scan: facts(scan), Findings: from.Each, Keep: wanted}}
		if !o.excepting.ignore {
			one.in.Exceptions = load.For(ctx, scan)
		}
		sources = append(sources, one)
	}
	return o.printMany(ctx, sources, failOn)
}

func (o *findingsOptions) printMany(ctx context.Context, sources []source, failOn report.Threshold) error {
	var counts tally
	all := func(ctx context.Context, do func(*report.Entry) error) error {
		counts = tally{failOn: failOn}
		for i := range sources {
			err := sources[i].in.Each(ctx, func(e *report.Entry) error {
				e.Scan = &sources[i].in.Scan
				counts.add(e)
				if e.Excepted() && o.hidesExcepted() {
					return nil
				}
				return do(e)
			})
			if err != nil {
				return fmt.Errorf("scan %s: %w", sources[i].scan.Name, err)
			}
		}
		return nil
	}
	said := ""
	err := o.output.write(o.session, func(out io.Writer) error {
		if !o.output.isTable() {
			return printList(ctx, out, o.output.format, all)
		}
		wide := o.output.format == formatWide
		t := newTable(withScan(columnsOf(false, o.excepting.show, wide), o.choice.all, wide), o.output.limit)
		err := printTable(ctx, paintless(o.session, o.output.file != ""), out, t, all)
		said = t.summary()
		return err
	})
	if err != nil {
		return o.session.Explain(err)
	}
	return o.concludeMany(sources, counts, said)
}

// concludeMany prints the summary, and returns the error of --fail-on.
func (o *findingsOptions) concludeMany(sources []source, counts tally, said string) error {
	if len(sources) == 0 {
		fmt.Fprintln(o.session.ErrOut, "there are no Scans that are Done"+o.choice.words())
		return nil
	}
	var unreached error
	for i := range sources {
		if text := view.Unreached(sources[i].scan); text != "" {
			fmt.Fprintf(o.session.ErrOut, "%s: %s\n", sources[i].scan.Name, text)
			unreached = failUnreached(sources[i].scan, o.allowUnreached)
		}
	}
	of := " in the last runs of " + plural(len(sources), "Scan")
	if o.choice.allRuns {
		of = " in " + plural(len(sources), "Scan")
	}
	if said == "" {
		said = plural(counts.total, "finding")
	}
	fmt.Fprintln(o.session.ErrOut, said+of)
	return o.judge(counts, unreached)
}

// words say which Scans were looked for.
func (c *choice) words() string {
	text := ""
	if !c.all {
		text = " in this namespace"
	}
	if c.selector != "" {
		text += " with labels " + c.selector
	}
	return text
}

// withScan puts a column with the Scan in front of others.
func withScan(columns []column, withNamespace, wide bool) []column {
	c := column{title: "SCAN", most: 40, cell: func(e *report.Entry) string {
		if withNamespace {
			return e.Scan.Namespace + "/" + e.Scan.Name
		}
		return e.Scan.Name
	}}
	if wide {
		c.most = maxWide
	}
	return append([]column{c}, columns...)
}

// scanMember is the member "scan" of a finding in a list of several Scans' findings.
func scanMember(s *report.Scan) ([]byte, error) {
	return json.Marshal(struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}{s.Namespace, s.Name})
}
