// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

type getOptions struct {
	session  *session.Session
	format   string
	all      bool
	selector string
	fields   string
}

func newGetCommand(s *session.Session) *cobra.Command {
	o := &getOptions{session: s}
	cmd := &cobra.Command{
		Use:   "get KIND [NAME...]",
		Short: "List reports, or print some",
		Long: `List the names of reports, or print reports as a table with all columns, as YAML or JSON.
A list of any length is fetched in pages.`,
		Example: examples(s, `  {{reports}} get polr
  {{reports}} get polr -A -o wide
  {{reports}} get polr nginx -o yaml
  {{reports}} get vulnr -l app=shop`),
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeKinds,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0], args[1:]) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.format, "output", "o", "", "print as table, wide, yaml, json or name")
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "list those of all namespaces")
	flags.StringVarP(&o.selector, "selector", "l", "", "list those with these labels, such as app=shop,env!=dev")
	flags.StringVar(&o.fields, "field-selector", "", "list those with these fields, such as metadata.name=nginx")
	// Fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "yaml", "json", "name"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func completeKinds(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return words(), cobra.ShellCompDirectiveNoFileComp
}

func (o *getOptions) run(ctx context.Context, word string, names []string) error {
	k, err := kindOf(word)
	if err != nil {
		return err
	}
	if len(names) > 0 && (o.all || o.selector != "" || o.fields != "") {
		return errors.New("names go with neither --all-namespaces nor selectors: leave out one of the two")
	}
	switch o.format {
	case "table", "wide":
		return explain(o.session, k, o.tables(ctx, k, names))
	case "", "yaml", "json", "name":
		t, err := open(o.session, k, o.all)
		if err != nil {
			return err
		}
		return explain(o.session, k, o.objects(ctx, t, names))
	}
	return fmt.Errorf("-o %s is not a format of this command: choose table, wide, yaml, json or name", o.format)
}

// tables prints the columns that the API has for the kind.
func (o *getOptions) tables(ctx context.Context, k kind, names []string) error {
	namespace := ""
	if !o.all && !k.cluster {
		var err error
		if namespace, err = o.session.Namespace(); err != nil {
			return err
		}
	}
	tables, err := output.NewTables(o.session, k.gvk)
	if err != nil {
		return err
	}
	show := output.PrintTables(o.session.Out, output.TableOptions{Wide: o.format == "wide", WithNamespace: o.all && !k.cluster, Columns: o.session.Columns})
	for _, name := range names {
		table, err := tables.Get(ctx, namespace, name)
		if err != nil {
			return err
		}
		if err := show(table); err != nil {
			return err
		}
	}
	if len(names) > 0 {
		return nil
	}
	found := 0
	_, err = tables.List(ctx, namespace, o.listOptions(), func(page *metav1.Table) error {
		found += len(page.Rows)
		return show(page)
	})
	if err == nil && found == 0 {
		o.none(k, namespace)
	}
	return err
}

func (o *getOptions) listOptions() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: o.selector, FieldSelector: o.fields}
}

// objects prints names, or whole objects.
func (o *getOptions) objects(ctx context.Context, t *target, names []string) error {
	list, err := o.fetch(ctx, t, names)
	if err != nil {
		return err
	}
	if len(names) == 1 && o.format != "" && o.format != "name" {
		return printObject(o.session, o.format, list.Items[0].Object)
	}
	switch o.format {
	case "yaml", "json":
		return printObject(o.session, o.format, list.UnstructuredContent())
	case "name":
		for i := range list.Items {
			if err := (&printers.NamePrinter{}).PrintObj(&list.Items[i], o.session.Out); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list.Items) == 0 {
		o.none(t.kind, t.namespace)
		return nil
	}
	return o.names(t, list)
}

// pageSize is how many objects one request reads, as in kubectl.
const pageSize = 500

func (o *getOptions) fetch(ctx context.Context, t *target, names []string) (*unstructured.UnstructuredList, error) {
	all := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": t.kind.gvk.GroupVersion().String(), "kind": t.kind.gvk.Kind + "List", "metadata": map[string]any{},
	}}
	for _, name := range names {
		one, err := t.resource.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		all.Items = append(all.Items, *one)
	}
	if len(names) > 0 {
		return all, nil
	}
	options := o.listOptions()
	options.Limit = pageSize
	for {
		page, err := t.resource.List(ctx, options)
		if err != nil {
			return nil, err
		}
		all.Items = append(all.Items, page.Items...)
		all.SetResourceVersion(page.GetResourceVersion())
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}

// names prints one name a line, and with all namespaces the namespace before it.
func (o *getOptions) names(t *target, list *unstructured.UnstructuredList) error {
	out := o.session.Out
	switch {
	case t.kind.cluster:
		fmt.Fprintf(out, "%s:\nNAME\n", t.kind.title)
	case o.all:
		fmt.Fprintf(out, "%s in all namespaces:\n", t.kind.title)
		return namespacedNames(out, list)
	default:
		fmt.Fprintf(out, "%s in namespace: %s\nNAME\n", t.kind.title, t.namespace)
	}
	for i := range list.Items {
		if _, err := fmt.Fprintln(out, list.Items[i].GetName()); err != nil {
			return err
		}
	}
	return nil
}

func namespacedNames(out io.Writer, list *unstructured.UnstructuredList) error {
	w := printers.GetNewTabWriter(out)
	fmt.Fprintln(w, "NAMESPACE\tNAME")
	for i := range list.Items {
		fmt.Fprintf(w, "%s\t%s\n", list.Items[i].GetNamespace(), list.Items[i].GetName())
	}
	return w.Flush()
}

// none says on stderr that there is nothing.
func (o *getOptions) none(k kind, namespace string) {
	where := ""
	switch {
	case k.cluster:
	case namespace == "":
		where = " in all namespaces"
	default:
		where = " in namespace: " + namespace
	}
	fmt.Fprintf(o.session.ErrOut, "No %s found%s\n", lowerFirst(k.title), where)
}

// printObject prints fields as JSON or as YAML.
func printObject(s *session.Session, format string, fields map[string]any) error {
	if format == "json" {
		return (&printers.JSONPrinter{}).PrintObj(&unstructured.Unstructured{Object: fields}, s.Data(termsafe.Escape))
	}
	return writeYAML(s.Data(termsafe.Replace), fields)
}
