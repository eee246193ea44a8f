// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
)

// errNotInstalled is what users of a cluster without the chart are told.
var errNotInstalled = errors.New("this cluster has no Registries: install the charts reports and registry (docs/registries.md)")

// NewRegistryCommand is "scanyard registry".
func NewRegistryCommand(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "registry",
		Aliases: []string{"registries", "reg"},
		Short:   "Have container registries looked at",
		Long: `Have container registries looked at: which images they have, what is in the images, and what is
wrong with that. Registries start jobs by their schedules; these commands start some by hand.`,
		Example: `  # Have a registry looked at, and see what comes of it
  {{program}} registry add https://registry.example.com --name prod --repo 'shop/*' --platform linux/amd64 --newest 5
  {{program}} registry discover prod --wait

  # Who has it
  {{program}} registry who-has CVE-2024-3094`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newListCommand(s), newDescribeCommand(s), newAddCommand(s), newGrantCommand(s), newDiscoverCommand(s), newScanCommand(s),
		newPreviewCommand(s), newImagesCommand(s), newImageCommand(s), newSBOMCommand(s), newVulnsCommand(s), newDiffCommand(s), newWhoHasCommand(s),
		newRetryCommand(s), newCancelCommand(s), newSuspendCommand(s, true), newSuspendCommand(s, false), newPurgeCommand(s), newDoctorCommand(s),
		newDatabasesCommand(s))
	return cmd
}

// errNoReports is what users of a cluster without the reports API are told.
var errNoReports = errors.New("this cluster does not serve the reports API, which keeps images: install the chart reports (docs/reports.md)")

// isNotServed tells whether an error means that the API server has no such kind.
func isNotServed(err error) bool {
	status := apierrors.APIStatus(nil)
	noGroup := apierrors.IsNotFound(err) && errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Name == "")
	return noGroup || meta.IsNoMatchError(err)
}

// explain tells of a cluster without Registries.
func explain(s *session.Session, err error) error {
	if isNotServed(err) {
		return errNotInstalled
	}
	return s.Explain(err)
}

// explainReports tells of a cluster without the reports API.
func explainReports(s *session.Session, err error) error {
	if isNotServed(err) {
		return errNoReports
	}
	return s.Explain(err)
}

func newListCommand(s *session.Session) *cobra.Command {
	out := output.New(s, "", true)
	all := false
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List Registries",
		Long:    `List the Registries of the namespace: their images, how many vulnerabilities, and whether they are looked at.`,
		Example: `  {{program}} registry list
  {{program}} registry list -A -o wide`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			return explain(s, list(cmd.Context(), s, out, all))
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "those of all namespaces")
	out.Bind(cmd)
	return cmd
}

func list(ctx context.Context, s *session.Session, out *output.Flags, all bool) error {
	c, namespace, err := s.Connect()
	if err != nil {
		return err
	}
	if all {
		namespace = ""
	}
	table, wide := out.Table()
	if !table {
		registries := &registryv1alpha1.RegistryList{}
		if err := c.List(ctx, registries, client.InNamespace(namespace)); err != nil {
			return err
		}
		return out.Print(s, registries)
	}
	tables, err := output.NewTables(s, registryv1alpha1.SchemeGroupVersion.WithKind("Registry"))
	if err != nil {
		return err
	}
	show, rows := output.PrintTables(s.Out, output.TableOptions{Wide: wide, WithNamespace: all, Columns: s.Columns}), 0
	_, err = tables.List(ctx, namespace, metav1.ListOptions{}, func(t *metav1.Table) error {
		if rows += len(t.Rows); len(t.Rows) == 0 {
			return nil
		}
		return show(t)
	})
	if err == nil && rows == 0 {
		fmt.Fprintln(s.ErrOut, "There are no Registries. docs/registries.md shows how one is written.")
	}
	return err
}

// find reads a Registry.
func find(ctx context.Context, s *session.Session, name string) (client.WithWatch, *registryv1alpha1.Registry, error) {
	c, namespace, err := s.Connect()
	if err != nil {
		return nil, nil, err
	}
	r := &registryv1alpha1.Registry{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, r); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil, errNotInstalled
		}
		return nil, nil, s.Missing(ctx, c, err, "Registry", namespace, name, &registryv1alpha1.RegistryList{})
	}
	return c, r, nil
}

func names(s *session.Session) complete.Func { return complete.Of(s, &registryv1alpha1.RegistryList{}) }

func newSuspendCommand(s *session.Session, suspend bool) *cobra.Command {
	use, short, long := "resume NAME", "Let the jobs of a Registry go on", "Let the jobs of a Registry go on, and its schedules start some."
	done := "resumed"
	if suspend {
		use, short, done = "suspend NAME", "Start no jobs of a Registry", "suspended"
		long = "Start no jobs of a Registry, and let nothing more in of those that run. What is worked on ends."
	}
	return &cobra.Command{
		Use: use, Short: short, Long: long, Example: "  {{program}} registry " + use[:len(use)-len("NAME")] + "prod",
		Args: cobra.ExactArgs(1), ValidArgsFunction: names(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, registry, err := find(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			changed := registry.DeepCopy()
			changed.Spec.Suspend = suspend
			if err := c.Patch(cmd.Context(), changed, client.MergeFrom(registry)); err != nil {
				return s.Explain(fmt.Errorf("patch Registry: %w", err))
			}
			fmt.Fprintf(s.Out, "registry/%s %s\n", registry.Name, done)
			return nil
		},
	}
}
