// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
)

// purgeOptions are the flags of purge.
type purgeOptions struct {
	session *session.Session
	all     bool
	yes     bool
}

func newPurgeCommand(s *session.Session) *cobra.Command {
	o := &purgeOptions{session: s}
	cmd := &cobra.Command{
		Use:   "purge [NAME]",
		Short: "Delete what registry scanning has stored",
		Long: `Delete what registry scanning has stored of a Registry, or of all Registries of the namespace: Images,
Repositories, SBOMs and VulnerabilityReports. The Registries themselves stay, and the next discovery
begins anew. "helm uninstall" leaves results; --all-namespaces removes those of the whole cluster.

Without --yes the command says what would be deleted, and deletes nothing.`,
		Example: `  {{program}} registry purge prod --yes
  {{program}} registry purge --all-namespaces`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: names(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			return explainReports(s, o.run(cmd.Context(), name))
		},
	}
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "what is stored in all namespaces")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "delete it")
	return cmd
}

func (o *purgeOptions) run(ctx context.Context, name string) error {
	if o.all && name != "" {
		return errors.New("a Registry is of one namespace: leave out its NAME or --all-namespaces")
	}
	r, err := newReader(o.session)
	if err != nil {
		return err
	}
	namespaces := []string{r.namespace}
	if o.all {
		if namespaces, err = allNamespaces(ctx, r); err != nil {
			return err
		}
	}
	var total int64
	for _, namespace := range namespaces {
		for _, kind := range purged {
			n, err := o.purge(ctx, r, namespace, name, kind)
			if err != nil {
				return err
			}
			total += n
		}
	}
	if total > 0 && !o.yes {
		fmt.Fprintln(o.session.ErrOut, "Nothing was deleted; --yes deletes it.")
	}
	if total == 0 {
		fmt.Fprintln(o.session.ErrOut, "There is nothing to delete.")
	}
	return nil
}

func allNamespaces(ctx context.Context, r *reader) ([]string, error) {
	list := &corev1.NamespaceList{}
	if err := r.List(ctx, list); err != nil {
		return nil, err
	}
	return session.Names(list), nil
}

// purgedKind is a kind of results.
type purgedKind struct {
	one, many string
	list      func() client.ObjectList
	object    func() client.Object
}

// purged are the kinds of results. SBOMs and reports go before their Images, which own them: what the garbage collector has
// not taken yet is gone when the command ends.
var purged = []purgedKind{
	{
		"VulnerabilityReport", "VulnerabilityReports",
		func() client.ObjectList { return &reportsv1.VulnerabilityReportList{} }, func() client.Object { return &reportsv1.VulnerabilityReport{} },
	},
	{"SBOM", "SBOMs", func() client.ObjectList { return &reportsv1.SBOMList{} }, func() client.Object { return &reportsv1.SBOM{} }},
	{"Image", "Images", func() client.ObjectList { return &reportsv1.ImageList{} }, func() client.Object { return &reportsv1.Image{} }},
	{"Repository", "Repositories", func() client.ObjectList { return &reportsv1.RepositoryList{} }, func() client.Object { return &reportsv1.Repository{} }},
}

// purge deletes the objects of a kind in a namespace, or counts them.
func (o *purgeOptions) purge(ctx context.Context, r *reader, namespace, name string, kind purgedKind) (int64, error) {
	selected := fields.Set{}
	if name != "" {
		selected["spec.registry.name"] = name
	}
	options := client.ListOptions{Namespace: namespace, FieldSelector: selected.AsSelector(), Limit: pageSize}
	var n int64
	for {
		list := kind.list()
		if err := r.List(ctx, list, &options); err != nil {
			return n, fmt.Errorf("list %s: %w", kind.many, err)
		}
		n += int64(len(session.Names(list)))
		if options.Continue = list.GetContinue(); options.Continue == "" {
			break
		}
	}
	if n == 0 {
		return 0, nil
	}
	word := "would be deleted"
	if o.yes {
		word = "deleted"
		all := &client.DeleteAllOfOptions{ListOptions: client.ListOptions{Namespace: namespace, FieldSelector: selected.AsSelector()}}
		if err := r.DeleteAllOf(ctx, kind.object(), all); err != nil {
			return n, fmt.Errorf("delete %s: %w", kind.many, err)
		}
	}
	fmt.Fprintf(o.session.Out, "%s of namespace %s %s\n", plural(n, kind.one, kind.many), namespace, word)
	return n, nil
}
