// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
)

// kind is a kind that get knows, with the words that a user may type for it.
type kind struct {
	words   []string
	local   schema.GroupVersionKind
	cluster schema.GroupVersionKind // the kind for the whole cluster; empty if there is none
	list    client.ObjectList
}

var kinds = []kind{
	{words: []string{"scans", "scan"}, local: executionv1.SchemeGroupVersion.WithKind("Scan"), list: &executionv1.ScanList{}},
	{
		words: []string{"schedules", "schedule", "scheduledscans", "scheduledscan"},
		local: executionv1.SchemeGroupVersion.WithKind("ScheduledScan"), list: &executionv1.ScheduledScanList{},
	},
	{
		words: []string{"types", "type", "scantypes", "scantype", "clusterscantypes", "clusterscantype"},
		local: executionv1.SchemeGroupVersion.WithKind("ScanType"), cluster: executionv1.SchemeGroupVersion.WithKind("ClusterScanType"),
		list: &executionv1.ScanTypeList{},
	},
	{
		words: []string{"hooks", "hook", "scancompletionhooks", "scancompletionhook", "clusterscancompletionhooks"},
		local: executionv1.SchemeGroupVersion.WithKind("ScanCompletionHook"), cluster: executionv1.SchemeGroupVersion.WithKind("ClusterScanCompletionHook"),
		list: &executionv1.ScanCompletionHookList{},
	},
	{
		words: []string{"parsers", "parser", "parsedefinitions", "parsedefinition", "clusterparsedefinitions"},
		local: executionv1.SchemeGroupVersion.WithKind("ParseDefinition"), cluster: executionv1.SchemeGroupVersion.WithKind("ClusterParseDefinition"),
		list: &executionv1.ParseDefinitionList{},
	},
	{
		words: []string{"rules", "rule", "cascadingrules", "cascadingrule", "clustercascadingrules"},
		local: cascadingv1.SchemeGroupVersion.WithKind("CascadingRule"), cluster: cascadingv1.SchemeGroupVersion.WithKind("ClusterCascadingRule"),
		list: &cascadingv1.CascadingRuleList{},
	},
}

// parseKind takes the kind off the arguments; the default is Scans.
func parseKind(args []string) (kind, []string) {
	if len(args) > 0 {
		for _, k := range kinds {
			if slices.Contains(k.words, args[0]) {
				return k, args[1:]
			}
		}
	}
	return kinds[0], args
}

// getOptions are the flags of get.
type getOptions struct {
	session     *session.Session
	output      *output.Flags
	all         bool
	selector    string
	watch       bool
	clusterWide bool
	noHeaders   bool
	showLabels  bool
}

// NewGetCommand makes the command get.
func NewGetCommand(s *session.Session) *cobra.Command {
	g := &getOptions{session: s, output: output.New(s, "", true)}
	cmd := &cobra.Command{
		Use:     "get [scans|schedules|types|hooks|parsers|rules] [NAME...]",
		Aliases: []string{"list", "ls"},
		Short:   "List scans, and what they are made of",
		Long: `List scans, or with another word schedules, types, hooks, parsers or cascading rules,
as tables or in the formats of kubectl. Without a word it lists scans; a scan that is
called like one of the words is reached with "get scans NAME".

With --cluster-wide types, hooks, parsers and rules are those of the whole cluster.`,
		Example: `  # All scans of the namespace
  {{program}} get

  # Those of one team, as they change
  {{program}} get -l team=blue --watch

  # Which scanners there are
  {{program}} get types
  {{program}} get types --cluster-wide

  # The state of one scan, for a script
  {{program}} get nmap -o jsonpath='{.status.state}'`,
		ValidArgsFunction: g.completion,
		RunE:              func(cmd *cobra.Command, args []string) error { return g.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&g.all, "all-namespaces", "A", false, "list those of all namespaces")
	flags.StringVarP(&g.selector, "selector", "l", "", "list those with these labels, such as team=blue,env!=dev")
	flags.BoolVarP(&g.watch, "watch", "w", false, "go on listing what changes")
	flags.BoolVar(&g.clusterWide, "cluster-wide", false, "list the kinds of the whole cluster, such as ClusterScanTypes")
	flags.BoolVar(&g.noHeaders, "no-headers", false, "leave out the line with the headers")
	flags.BoolVar(&g.showLabels, "show-labels", false, "add a column with all labels")
	g.output.Bind(cmd)
	return cmd
}

func (g *getOptions) completion(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	k, names := parseKind(args)
	found, directive := complete.Of(g.session, k.list)(cmd, names, toComplete)
	if len(args) == 0 {
		for _, k := range kinds {
			if strings.HasPrefix(k.words[0], toComplete) {
				found = append(found, k.words[0])
			}
		}
	}
	return found, directive
}

func (g *getOptions) run(ctx context.Context, args []string) error {
	k, names := parseKind(args)
	if err := g.check(k, names); err != nil {
		return err
	}
	namespace, err := g.session.Namespace()
	if err != nil {
		return err
	}
	gvk := k.local
	if g.clusterWide || len(args) > 0 && strings.HasPrefix(args[0], "cluster") {
		gvk, namespace = k.cluster, ""
	}
	if g.all {
		namespace = ""
	}
	table, wide := g.output.Table()
	if !table {
		return g.objects(ctx, gvk, namespace, names)
	}
	return g.tables(ctx, gvk, namespace, names, wide)
}

func (g *getOptions) check(k kind, names []string) error {
	table, _ := g.output.Table()
	switch {
	case g.clusterWide && k.cluster.Empty():
		return fmt.Errorf("--cluster-wide: there are no %s of the whole cluster, only types, hooks, parsers and rules", k.words[0])
	case len(names) > 0 && (g.all || g.selector != ""):
		return errors.New("names go neither with --all-namespaces nor with --selector")
	case g.watch && !table:
		return errors.New("--watch prints tables only; leave out -o, or give -o wide")
	case g.watch && len(names) > 1:
		return errors.New("--watch takes one name, or none for all")
	}
	if g.selector != "" {
		if _, err := labels.Parse(g.selector); err != nil {
			return fmt.Errorf("--selector %q: %w", g.selector, err)
		}
	}
	return g.output.Check()
}

// missing explains that an object does not exist, with similar names.
func (g *getOptions) missing(ctx context.Context, err error, gvk schema.GroupVersionKind, namespace, name string) error {
	c, clientErr := g.session.Client()
	if clientErr != nil {
		return g.session.Explain(err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return g.session.Missing(ctx, c, err, gvk.Kind, namespace, name, list)
}

func (g *getOptions) tables(ctx context.Context, gvk schema.GroupVersionKind, namespace string, names []string, wide bool) error {
	t, err := output.NewTables(g.session, gvk)
	if err != nil {
		return g.session.Explain(err)
	}
	page := output.PrintTables(g.session.Out, output.TableOptions{
		Wide: wide, NoHeaders: g.noHeaders, WithNamespace: g.all, ShowLabels: g.showLabels, Columns: g.session.Columns,
	})
	if g.watch {
		return g.changes(ctx, t, namespace, names, page)
	}
	if len(names) == 0 {
		n := 0
		_, err := t.List(ctx, namespace, metav1.ListOptions{LabelSelector: g.selector}, func(table *metav1.Table) error {
			n += len(table.Rows)
			return page(table)
		})
		if err == nil && n == 0 {
			fmt.Fprintln(g.session.ErrOut, nothing(gvk, namespace, g.selector)+g.noSuchNamespace(ctx, namespace))
		}
		return g.session.Explain(err)
	}
	var errs []error
	for _, name := range names {
		table, err := t.Get(ctx, namespace, name)
		if err == nil {
			err = page(table)
		} else {
			err = g.missing(ctx, err, gvk, namespace, name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// noSuchNamespace says so of a namespace that does not exist: a list in one is empty, as in any other.
// Who may not look at the namespace is told nothing.
func (g *getOptions) noSuchNamespace(ctx context.Context, namespace string) string {
	if namespace == "" {
		return ""
	}
	c, err := g.session.Client()
	if err != nil {
		return ""
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, ns); !apierrors.IsNotFound(err) {
		return ""
	}
	return " There is no such namespace."
}

func nothing(gvk schema.GroupVersionKind, namespace, selector string) string {
	text := fmt.Sprintf("There are no %ss", gvk.Kind)
	if namespace != "" {
		text += " in namespace " + namespace
	}
	if selector != "" {
		text += " with labels " + selector
	}
	return text + "."
}

// changes prints rows as they change, until Ctrl-C.
func (g *getOptions) changes(ctx context.Context, t *output.Tables, namespace string, names []string, page func(*metav1.Table) error) error {
	name := ""
	if len(names) > 0 {
		name = names[0]
	}
	feed := t.Feed(namespace, g.selector, name)
	feed.Away = func(err error) {
		if err != nil {
			fmt.Fprintln(g.session.ErrOut, "The API server is away, trying again:", g.session.Explain(err))
		}
	}
	err := feed.Run(ctx, func(r output.Row, there bool) (bool, error) {
		if !there {
			return false, nil
		}
		return false, page(r.Table)
	}, nil)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // Ctrl-C ends watching
	}
	return g.session.Explain(err)
}

// objects prints whole objects, in the chosen format.
func (g *getOptions) objects(ctx context.Context, gvk schema.GroupVersionKind, namespace string, names []string) error {
	c, err := g.session.Client()
	if err != nil {
		return err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if len(names) == 0 {
		opts := &client.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{LabelSelector: g.selector}}
		if err := c.List(ctx, list, opts); err != nil {
			return g.session.Explain(err)
		}
		return g.output.Print(g.session, list)
	}
	var errs []error
	for _, name := range names {
		o := unstructured.Unstructured{}
		o.SetGroupVersionKind(gvk)
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &o); err != nil {
			if !apierrors.IsNotFound(err) {
				return g.session.Explain(err)
			}
			errs = append(errs, g.missing(ctx, err, gvk, namespace, name))
			continue
		}
		list.Items = append(list.Items, o)
	}
	if len(names) == 1 && len(list.Items) == 1 {
		return g.output.Print(g.session, &list.Items[0])
	}
	if len(list.Items) > 0 {
		errs = append(errs, g.output.Print(g.session, list))
	}
	return errors.Join(errs...)
}
