// SPDX-License-Identifier: Apache-2.0

package cascades

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/exceptions"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/findings/cascade/explain"
)

// NewCascadeCommand makes the command cascade with its subcommand explain. Without a subcommand it shows the tree, as in scbctl.
func NewCascadeCommand(s *session.Session) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "cascade [SCAN]",
		Short: "Show cascades, or explain what findings would start",
		Long: `Show which Scan was started by which, as "tree" does; scbctl calls it so. "cascade explain" shows which
Scans the findings of a Scan would start.`,
		Example: `  {{program}} cascade
  {{program}} cascade explain --scan nmap-network`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: complete.First(complete.Scans(s)),
		RunE: func(cmd *cobra.Command, args []string) error { return runTree(cmd.Context(), s, format, args) },
	}
	bindTreeFormat(cmd, &format)
	cmd.AddCommand(newExplainCommand(s))
	return cmd
}

// explainOptions are the flags of cascade explain.
type explainOptions struct {
	session *session.Session
	files   explain.Files
	format  string
	reading results.Options
	// noExceptions takes no notice of exceptions.
	noExceptions bool
}

func newExplainCommand(s *session.Session) *cobra.Command {
	o := &explainOptions{session: s}
	cmd := &cobra.Command{
		Use:   "explain --scan SCAN [--findings FILE] [--rules FILE]",
		Short: "Show which Scans findings would start, and why rules start none",
		Long: `Show which Scans the findings of a Scan would start, and for each cascading rule that starts none, why.
Nothing is started. The plan is made by the code of the hook cascading-scans.

--scan is the name of a Scan in the cluster, or a file. What is not given as a file is taken from the
cluster: the findings of the Scan, the rules that its resourceMode uses, the ParseDefinition of its
results. So rules can be tried out on real findings before they are applied. With files for all three,
no cluster is needed.

Findings that an exception suppresses start nothing, unless the rule has the annotation
scanyard.io/exceptions: ignore. Files alone know no exceptions.

Files may be YAML or JSON. Rules may be several documents or a list, as kubectl get -o yaml prints it.

Exit codes: 0 shown, 1 errored, or shown and the hook would fail.`,
		Example: `  # What has this Scan started, or why has it not?
  {{program}} cascade explain --scan nmap-network

  # Try a rule before it is applied
  {{program}} cascade explain --scan nmap-network --rules new-rule.yaml

  # Without a cluster
  {{program}} cascade explain --scan parent.yaml --findings findings.json --rules rules.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.files.Scan, "scan", "", "`name` of the Scan that has the findings, or a file with it")
	flags.StringVar(&o.files.Findings, "findings", "", "`file` with its findings (findings.json)")
	flags.StringVar(&o.files.Rules, "rules", "", "`file` with CascadingRules or ClusterCascadingRules")
	flags.StringVar(&o.files.ParseDefinition, "parse-definition", "", "`file` with the ParseDefinition of its results, for scopeLimiterAliases")
	flags.StringVarP(&o.format, "output", "o", "yaml", "`format`: yaml, json")
	flags.BoolVar(&o.noExceptions, "no-exceptions", false, "take no notice of exceptions")
	o.reading.BindFlags(flags)
	// The only errors are flags that do not exist.
	_ = cmd.MarkFlagRequired("scan")
	_ = cmd.RegisterFlagCompletionFunc("scan", complete.Scans(s))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"yaml", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// modeOf returns how control characters are written in a format.
func modeOf(format string) termsafe.Mode {
	if format == "json" {
		return termsafe.Escape
	}
	return termsafe.Replace
}

func (o *explainOptions) run(ctx context.Context) (err error) {
	if !slices.Contains([]string{"yaml", "json"}, o.format) {
		return fmt.Errorf("-o %q: there are the formats yaml and json", o.format)
	}
	q, done, err := o.question(ctx)
	if err != nil {
		return o.session.Explain(err)
	}
	defer func() { err = errors.Join(err, done()) }()
	answer, err := explain.Explain(q)
	if err != nil {
		return o.session.Explain(err)
	}
	if err := answer.Print(o.session.Data(modeOf(o.format)), o.format); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New("the hook would fail: " + answer.Error)
	}
	return nil
}

// question reads findings and rules from files and from the cluster. done is called at the end.
func (o *explainOptions) question(ctx context.Context) (q explain.Question, done func() error, err error) {
	done = func() error { return nil }
	if isFile(o.files.Scan) {
		if o.files.Findings == "" || o.files.Rules == "" {
			return q, done, errors.New("with a file as --scan, --findings and --rules name files too; or give the name of a Scan in the cluster")
		}
		q, err = o.files.Question()
		return q, done, err
	}
	c, namespace, err := o.session.Connect()
	if err != nil {
		return q, done, err
	}
	scan, err := o.session.Scan(ctx, c, namespace, o.files.Scan)
	if err != nil {
		return q, done, err
	}
	// Files first: their mistakes are reported before anything is downloaded.
	if q, err = o.files.Given(); err != nil {
		return q, done, err
	}
	if q.Scan, err = fetch(ctx, c, "Scan", namespace, scan.Name); err != nil {
		return q, done, err
	}
	if !o.noExceptions {
		q.Exceptions = exceptions.For(ctx, o.session, c, scan)
	}
	if q.Rules == nil {
		if q.Rules, err = rulesFor(ctx, c, scan); err != nil {
			return q, done, err
		}
	}
	if q.ParseDefinition == nil {
		if q.ParseDefinition, err = definitionFor(ctx, c, scan); err != nil {
			return q, done, err
		}
	}
	if q.Findings == nil {
		reader, err := results.New(o.session, c, o.reading)
		if err != nil {
			return q, done, err
		}
		source := reader.Source(scan, true)
		q.Findings, done = func() (io.ReadCloser, error) { return source.Open(ctx) }, source.Close
	}
	return q, done, nil
}

// isFile distinguishes a file from the name of a Scan, which has no folder and no such ending.
func isFile(text string) bool {
	switch filepath.Ext(text) {
	case ".yaml", ".yml", ".json":
		return true
	}
	if strings.ContainsRune(text, filepath.Separator) || text == "-" {
		return true
	}
	info, err := os.Stat(text)
	return err == nil && info.Mode().IsRegular()
}

func isClusterWide(s *executionv1.Scan) bool {
	return ptr.Deref(s.Spec.ResourceMode, executionv1.NamespaceLocal) == executionv1.ClusterWide
}

// rulesFor lists the rules that the hook would list.
func rulesFor(ctx context.Context, c client.Client, s *executionv1.Scan) ([]finding.Object, error) {
	kind, options := "CascadingRule", []client.ListOption{client.InNamespace(s.Namespace)}
	if isClusterWide(s) {
		kind, options = "ClusterCascadingRule", nil
	}
	var rules []finding.Object
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(cascadingv1.SchemeGroupVersion.WithKind(kind + "List"))
	for {
		if err := c.List(ctx, list, append(options, client.Limit(pageSize), client.Continue(list.GetContinue()))...); err != nil {
			return nil, fmt.Errorf("list %ss: %w", kind, err)
		}
		for i := range list.Items {
			rule, err := decoded(&list.Items[i])
			if err != nil {
				return nil, err
			}
			rules = append(rules, rule)
		}
		if list.GetContinue() == "" {
			return rules, nil
		}
	}
}

// definitionFor gets the ParseDefinition of a Scan's results; nil if it was deleted.
func definitionFor(ctx context.Context, c client.Client, s *executionv1.Scan) (finding.Object, error) {
	if s.Status.RawResultType == "" {
		return nil, nil
	}
	kind, namespace := "ParseDefinition", s.Namespace
	if isClusterWide(s) {
		kind, namespace = "ClusterParseDefinition", ""
	}
	definition, err := fetch(ctx, c, kind, namespace, s.Status.RawResultType)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return definition, err
}

// fetch gets an object as the API server has it, including fields that our types do not have.
func fetch(ctx context.Context, c client.Client, kind, namespace, name string) (finding.Object, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind(kind))
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		return nil, fmt.Errorf("get %s %s: %w", kind, name, err)
	}
	return decoded(o)
}

func decoded(o *unstructured.Unstructured) (finding.Object, error) {
	text, err := o.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	value, err := finding.DecodeValue(text, 0)
	if err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	object, _ := value.(finding.Object)
	return object, nil
}
