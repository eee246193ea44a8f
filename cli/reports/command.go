// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"

	"github.com/scanyard/scanyard/cli/reports/migrate"
	"github.com/scanyard/scanyard/cli/session"
)

// NewReportsCommand makes the command reports, with its own commands below it.
func NewReportsCommand(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reports",
		Short: "Read and write policy reports, images, SBOMs and vulnerability reports",
		Long: `Read and write policy reports, images, SBOMs and vulnerability reports.

They are served by the reports API server, or kept as custom resources where a cluster
has their CRDs; the commands work with both.

Kinds: ` + strings.Join(words(), ", ") + `, or their long names.`,
		Example: examples(s, `  # Names of the policy reports of the namespace
  {{reports}} get polr

  # All columns, of all namespaces
  {{reports}} get polr -A -o wide

  # Write what is in a file
  {{reports}} apply -f report.yaml`),
	}
	cmd.AddCommand(
		newGetCommand(s), newCreateCommand(s), newApplyCommand(s), newPatchCommand(s), newDeleteCommand(s), newQueryCommand(s), newLintCommand(s),
		newExportCommand(s),
		migrate.NewCommand(s, examples(s, migrateExamples)),
	)
	return cmd
}

const migrateExamples = `  # What would be moved
  {{reports}} migrate --dry-run

  # Move everything, and delete the CRDs
  {{reports}} migrate`

// examples has {{reports}} replaced by what the user types before a command.
func examples(s *session.Session, lines string) string {
	prefix := "{{program}} reports"
	if s.Program == session.PluginProgram {
		prefix = "{{program}}"
	}
	return strings.ReplaceAll(lines, "{{reports}}", prefix)
}

// target is where a command reads and writes.
type target struct {
	kind      kind
	namespace string // "" for all, and for kinds of the cluster
	resource  dynamic.ResourceInterface
}

// open finds out how the API serves a kind.
func open(s *session.Session, k kind, all bool) (*target, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, s.Explain(err)
	}
	resource := client.Resource(k.gvk.GroupVersion().WithResource(k.resource))
	if k.cluster {
		return &target{kind: k, resource: resource}, nil
	}
	namespace := ""
	if !all {
		if namespace, err = s.Namespace(); err != nil {
			return nil, err
		}
	}
	return &target{kind: k, namespace: namespace, resource: resource.Namespace(namespace)}, nil
}

// explain names the remedy where the API has no such kind.
func explain(s *session.Session, k kind, err error) error {
	status := apierrors.APIStatus(nil)
	if apierrors.IsNotFound(err) && errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Name == "") || meta.IsNoMatchError(err) {
		return fmt.Errorf(
			"the cluster does not serve %s of %s: install the reports API server (chart reports), or the CRDs of that group",
			k.resource, k.gvk.GroupVersion(),
		)
	}
	return s.Explain(err)
}

// place says in messages where a report is, as " in namespace x".
func place(namespace string) string {
	if namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %s", namespace)
}
