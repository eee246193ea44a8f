// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/findings/query"
)

// whoOptions are the flags of who-has.
type whoOptions struct {
	document

	all  bool
	gone bool
}

func newWhoHasCommand(s *session.Session) *cobra.Command {
	o := &whoOptions{document: document{session: s}}
	cmd := &cobra.Command{
		Use:   "who-has CVE|PACKAGE[@RANGE]",
		Short: "Say which images have a vulnerability, or a vulnerable package",
		Long: `Say which images have a vulnerability, or a vulnerable package: the installed version, the one that
fixes it, the layer, and since when it is known. The answer comes from the database of the reports
API; no image is looked at again.

A vulnerability is its id, such as CVE-2024-3094 or GHSA-35jh-r3h4-6jhm. A RANGE is a version, or
comparisons such as "<4.17.21" or ">=5.6.0|<=5.6.1", in the order of versions of the package's type.

Exit codes: 0 done, also where nobody has it, 1 errored.`,
		Example: `  {{program}} registry who-has CVE-2024-3094 -A
  {{program}} registry who-has lodash@'<4.17.21'`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "ask about the images of all namespaces")
	cmd.Flags().BoolVar(&o.gone, "gone", false, "also images that have left their registry")
	o.bind(cmd, formatTable, formatTable, formatWide, formatCSV)
	return cmd
}

// vulnerabilityID is how those who give ids to vulnerabilities write them.
var vulnerabilityID = regexp.MustCompile(`^(?i:GHSA(-[0-9a-z]{4}){3}|[A-Z]{2,}[A-Z0-9]*-\d{4}[-:]\d+|(DSA|DLA|TEMP|ALAS)-[0-9A-Z-]+)$`)

// asked is what somebody may have.
type asked struct{ vulnerability, name, versions string }

func parseAsked(text string) (asked, error) {
	if vulnerabilityID.MatchString(text) {
		if up := strings.ToUpper(text); strings.HasPrefix(up, "CVE-") {
			text = up
		}
		return asked{vulnerability: text}, nil
	}
	a := asked{name: text}
	// The names of packages may begin with @, as @babel/core.
	if i := strings.LastIndexByte(text, '@'); i > 0 {
		a.name, a.versions = text[:i], text[i+1:]
		if a.versions == "" {
			return a, fmt.Errorf("%q has no version behind @", text)
		}
	}
	return a, nil
}

// takes tells whether an installed version is one that is asked for: a report may have others of the same package.
func (a asked) takes(p *reportsv1.VulnerablePackage) bool {
	if a.versions == "" {
		return true
	}
	scheme, _, _ := strings.Cut(strings.TrimPrefix(p.PURL, "pkg:"), "/")
	if scheme == "" {
		scheme = p.Type
	}
	return len(query.VersionRange(a.versions).Takes(scheme, []string{p.Version})) > 0
}

// hit is an image that has it.
type hit struct {
	namespace string
	image     *reportsv1.Image
	finding   *reportsv1.VulnerabilityFinding
}

func (o *whoOptions) run(ctx context.Context, text string) error {
	a, err := parseAsked(text)
	if err != nil {
		return err
	}
	r, err := newReader(o.session)
	if err != nil {
		return err
	}
	reports, err := o.ask(ctx, r, a)
	if err != nil {
		return explainReports(o.session, a.explainRange(err))
	}
	var hits []hit
	images := map[string]bool{}
	for _, at := range reports {
		found, err := o.read(ctx, r, a, at)
		if err != nil {
			return explainReports(o.session, err)
		}
		for _, h := range found {
			images[h.namespace+"/"+h.image.Spec.Digest] = true
		}
		hits = append(hits, found...)
	}
	if len(hits) == 0 {
		fmt.Fprintf(o.session.ErrOut, "No image%s has %s.\n", o.where(r), text)
		return nil
	}
	if err := o.write(func(out io.Writer) error { return o.print(out, hits) }); err != nil {
		return err
	}
	fmt.Fprintf(o.session.ErrOut, "%s%s.\n", plural(int64(len(images)), "image has it", "images have it"), o.where(r))
	return nil
}

func (o *whoOptions) where(r *reader) string {
	if o.all {
		return ""
	}
	return " in namespace " + r.namespace
}

// maxRows is what one answer holds.
const maxRows = 1000

// ask finds the reports that have a row of it. The server knows the order of versions: reports without one that is asked for are not read.
func (o *whoOptions) ask(ctx context.Context, r *reader, a asked) ([]client.ObjectKey, error) {
	spec := reportsv1.FindingQuerySpec{Vulnerability: a.vulnerability, Kinds: []string{"vulnerabilityreports"}, Limit: maxRows}
	if a.name != "" {
		spec.Package = &reportsv1.PackageQuery{Name: a.name, VersionRange: a.versions}
	}
	var reports []client.ObjectKey
	seen := map[client.ObjectKey]bool{}
	for {
		status, err := o.answer(ctx, r, spec)
		if err != nil {
			return nil, err
		}
		for _, row := range status.Rows {
			if at := (client.ObjectKey{Namespace: row.Namespace, Name: row.Report}); !seen[at] {
				seen[at] = true
				reports = append(reports, at)
			}
		}
		if spec.Continue = status.Continue; spec.Continue == "" {
			return reports, nil
		}
	}
}

// explainRange says which part of the argument the server has refused: each type of packages has versions of its own, and which types
// are meant only the server knows, from what is installed.
func (a asked) explainRange(err error) error {
	if said := session.Refused(err, "spec.package.versionRange"); said != "" {
		return fmt.Errorf("RANGE of %s: %s", a.name, said)
	}
	return err
}

// answer creates the question; the object that comes back has the answer.
func (o *whoOptions) answer(ctx context.Context, r *reader, spec reportsv1.FindingQuerySpec) (*reportsv1.FindingQueryStatus, error) {
	if o.all {
		q := &reportsv1.ClusterFindingQuery{Spec: reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: spec}}
		err := r.Create(ctx, q)
		return &q.Status, err
	}
	q := &reportsv1.FindingQuery{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace}, Spec: spec}
	err := r.Create(ctx, q)
	return &q.Status, err
}

// read reads what a report says of it. What was deleted meanwhile has it no more.
func (o *whoOptions) read(ctx context.Context, r *reader, a asked, at client.ObjectKey) ([]hit, error) {
	image := &reportsv1.Image{}
	if err := r.Get(ctx, at, image); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if image.Status.Presence != reportsv1.ImagePresent && !image.Spec.External && !o.gone {
		return nil, nil
	}
	var found []hit
	err := r.eachFinding(ctx, at.Namespace, at.Name, func(f *reportsv1.VulnerabilityFinding, _ []byte) error {
		if a.takes(&f.Package) {
			found = append(found, hit{at.Namespace, image, f})
		}
		return nil
	}, "vulnerability", a.vulnerability, "package", a.name, "suppressed", "false")
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return found, err
}

func (o *whoOptions) print(out io.Writer, hits []hit) error {
	cells := []string{"IMAGE", "PLATFORM", "VULNERABILITY", "SEVERITY", "PACKAGE", "INSTALLED", "FIXED", "LAYER", "FIRST-SEEN"}
	if o.all {
		cells = append([]string{"NAMESPACE"}, cells...)
	}
	wide := o.format != formatTable
	if wide {
		cells = append(cells, "DIGEST", "TARGET", "COMMAND")
	}
	var to rows = o.table(out)
	if o.format == formatCSV {
		to = newCSV(out)
	}
	if err := to.row(cells); err != nil {
		return err
	}
	for _, h := range hits {
		f := h.finding
		cells = cells[:0]
		if o.all {
			cells = append(cells, h.namespace)
		}
		cells = append(cells, called(h.image), h.image.Spec.Platform, f.VulnerabilityID, f.Severity, f.Package.Name, f.Package.Version,
			strings.Join(f.FixedVersions, ", "), layerOf(f.Layer), firstSeen(f))
		if wide {
			cells = append(cells, h.image.Spec.Digest, f.Target, commandOf(h.image, f.Layer))
		}
		if err := to.row(cells); err != nil {
			return err
		}
	}
	return to.end()
}
