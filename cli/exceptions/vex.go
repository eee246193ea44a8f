// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/vexdoc"
)

// maxDocument is how large a VEX document may be.
const maxDocument = 64 << 20

type importOptions struct {
	options
	expires, dryRun string
	end             *metav1.Time
}

func newImportCommand(s *session.Session) *cobra.Command {
	o := &importOptions{options: options{session: s}}
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Make exceptions of VEX documents",
		Long: `Make exceptions of VEX documents, OpenVEX or CycloneDX in JSON: one of each statement. A FILE of - is
stdin.

not_affected becomes NotAffected, fixed and resolved Mitigated, under_investigation and in_triage
UnderInvestigation, false_positive FalsePositive; affected makes none. Products are package URLs, and
images by their digest. What cannot be taken is told with the number of its statement; the rest is
imported, and the exit code is 0.

Names are made of what statements say: importing twice changes nothing.`,
		Example: `  {{program}} exceptions import vendor.openvex.json --expires 90d
  {{program}} exceptions import bom.vex.json --dry-run=server`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.Flags().StringVar(&o.expires, "expires", "", "`when` they end where the document does not say: 90d, 2027-01-31, 2027-01-31T12:00:00Z")
	cmd.Flags().StringVar(&o.dryRun, "dry-run", "none", "server: let the API server check the exceptions without keeping them")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = dryRunServer
	o.bindCluster(cmd)
	return cmd
}

const dryRunServer = "server"

func (o *importOptions) run(ctx context.Context, files []string) error {
	if o.dryRun != "none" && o.dryRun != dryRunServer {
		return fmt.Errorf("--dry-run %q must be none or server", o.dryRun)
	}
	if o.expires != "" {
		end, err := endOf(o.expires, o.session.Now())
		if err != nil {
			return fmt.Errorf("--expires: %w", err)
		}
		stamp := metav1.NewTime(end)
		o.end = &stamp
	}
	c, namespace, err := o.session.Connect()
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := o.file(ctx, c, namespace, file); err != nil {
			return o.session.Explain(fmt.Errorf("%s: %w", file, err))
		}
	}
	return nil
}

func (o *importOptions) file(ctx context.Context, c client.Client, namespace, file string) error {
	data, err := readDocument(o.session.In, file)
	if err != nil {
		return err
	}
	statements, problems, err := vexdoc.Read(data)
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(o.session.ErrOut, "%s: statement %d: %s\n", file, p.Number, termsafe.Line(p.Text))
	}
	for i := range statements {
		what, err := o.apply(ctx, c, namespace, &statements[i])
		switch {
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			fmt.Fprintf(o.session.ErrOut, "%s: %s: %v\n", file, statements[i].Name, o.session.Explain(err))
			continue
		case err != nil:
			return err
		}
		if o.dryRun == dryRunServer {
			what += " (dry run)"
		}
		fmt.Fprintf(o.session.Out, "%s/%s %s\n", strings.ToLower(o.kind().Kind), statements[i].Name, what)
	}
	return nil
}

func readDocument(stdin io.Reader, name string) ([]byte, error) {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close() //nolint:errcheck // the file was only read
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("the document is larger than %d MiB", maxDocument>>20)
	}
	return data, err
}

// apply makes an exception, or changes the one of that name to what the document says. An end that somebody has set stays
// where the document has none.
func (o *importOptions) apply(ctx context.Context, c client.Client, namespace string, s *vexdoc.Statement) (string, error) {
	object, spec := o.object(namespace, s.Name)
	*spec = s.Spec
	if spec.ExpiresAt == nil {
		spec.ExpiresAt = o.end
	}
	var creating []client.CreateOption
	var updating []client.UpdateOption
	if o.dryRun == dryRunServer {
		creating, updating = append(creating, client.DryRunAll), append(updating, client.DryRunAll)
	}
	err := c.Create(ctx, object, creating...)
	if !apierrors.IsAlreadyExists(err) {
		return "created", err
	}
	stored, before := o.object(namespace, s.Name)
	if err := c.Get(ctx, client.ObjectKeyFromObject(stored), stored); err != nil {
		return "", err
	}
	want, changed := s.Over(before)
	if !changed {
		return "unchanged", nil
	}
	*before = want
	return "configured", c.Update(ctx, stored, updating...)
}

// object is an empty exception of the wanted kind, and where its spec is.
func (o *options) object(namespace, name string) (client.Object, *settingsv1alpha2.ExceptionSpec) {
	if o.cluster {
		e := &settingsv1alpha2.ClusterFindingException{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return e, &e.Spec.ExceptionSpec
	}
	e := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return e, &e.Spec.ExceptionSpec
}

type exportOptions struct {
	options
	format string
}

func newExportCommand(s *session.Session) *cobra.Command {
	o := &exportOptions{options: options{session: s}}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write exceptions that hold as a VEX document",
		Long: `Write the exceptions that hold now as a VEX document: those that name vulnerabilities in packages or in
images by their digest. A document can say no more: others are told on stderr. Accepted risks are no
statement of VEX, false positives are one of CycloneDX only.

Importing what was exported makes the same exceptions.`,
		Example: `  {{program}} exceptions export > team.openvex.json
  {{program}} exceptions export --cluster-wide --format cyclonedx`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.Explain(o.run(cmd.Context())) },
	}
	cmd.Flags().StringVar(&o.format, "format", vexdoc.Formats[0], "`format`: "+strings.Join(vexdoc.Formats, ", "))
	o.bindCluster(cmd)
	// The only error is a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(vexdoc.Formats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var errScope = errors.New("a VEX document cannot say it: it has a scope")

func (o *exportOptions) run(ctx context.Context) error {
	if !slices.Contains(vexdoc.Formats, o.format) {
		return fmt.Errorf("--format %q must be one of %s", o.format, strings.Join(vexdoc.Formats, ", "))
	}
	c, namespace, err := o.session.Connect()
	if err != nil {
		return err
	}
	list, err := o.read(ctx, c, namespace)
	if err != nil {
		return err
	}
	now := o.session.Now()
	var wanted []vexdoc.Statement
	for i := range list {
		e := &list[i]
		if e.PhaseAt(now) != exception.Holds {
			continue
		}
		s := vexdoc.Statement{Name: e.Name, Spec: e.Spec}
		err := vexdoc.Check(&s, o.format)
		if !equality.Semantic.DeepEqual(e.Scope, settingsv1alpha2.ClusterExceptionScope{}) {
			err = errScope
		}
		if err != nil {
			fmt.Fprintf(o.session.ErrOut, "%s: %v\n", e.Name, err)
			continue
		}
		wanted = append(wanted, s)
	}
	return vexdoc.Write(o.session.Data(termsafe.Escape), wanted, o.format, now)
}

// read lists the exceptions of the wanted kind.
func (o *options) read(ctx context.Context, c client.Client, namespace string) (all []exception.Exception, err error) {
	if o.cluster {
		list := &settingsv1alpha2.ClusterFindingExceptionList{}
		err = pages(ctx, c, list, func() {
			for i := range list.Items {
				all = append(all, exception.OfCluster(&list.Items[i]))
			}
		})
		return all, err
	}
	list := &settingsv1alpha2.FindingExceptionList{}
	err = pages(ctx, c, list, func() {
		for i := range list.Items {
			all = append(all, exception.Of(&list.Items[i]))
		}
	}, client.InNamespace(namespace))
	return all, err
}
