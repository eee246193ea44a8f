// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/cli/view"
)

// imagesOptions are the flags of images.
type imagesOptions struct {
	session  *session.Session
	out      *output.Flags
	all      bool
	gone     bool
	failed   bool
	severity string
}

func newImagesCommand(s *session.Session) *cobra.Command {
	o := &imagesOptions{session: s, out: output.New(s, "", true)}
	cmd := &cobra.Command{
		Use:   "images [NAME]",
		Short: "List the images of a Registry, or of all Registries of the namespace",
		Long: `List images: how far each is, and how many vulnerabilities it has. Images that have left their
registry, or whose tag points elsewhere, are left out unless --gone is given.`,
		Example: `  {{program}} registry images prod
  {{program}} registry images --failed
  {{program}} registry images --severity critical -o wide`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: names(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), slices.Concat(args, []string{""})[0])
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "those of all namespaces")
	f.BoolVar(&o.gone, "gone", false, "also images that have left their registry")
	f.BoolVar(&o.failed, "failed", false, "only images that could not be looked at")
	f.StringVar(&o.severity, "severity", "", "only images with a vulnerability of this `severity` or a worse one")
	o.out.Bind(cmd)
	return cmd
}

func (o *imagesOptions) run(ctx context.Context, name string) (err error) {
	if err := o.out.Check(); err != nil {
		return err
	}
	if o.severity != "" {
		if o.severity, err = parseSeverity("severity", o.severity); err != nil {
			return err
		}
	}
	r, err := newReader(o.session)
	if err != nil {
		return err
	}
	namespace, selected := r.namespace, fields.Set{}
	if o.all {
		namespace = ""
	}
	if name != "" {
		if !o.all {
			if _, _, err := find(ctx, o.session, name); err != nil {
				return err
			}
		}
		selected["spec.registry.name"] = name
	}
	if !o.gone {
		selected["status.presence"] = string(reportsv1.ImagePresent)
	}
	if table, wide := o.out.Table(); table {
		return o.table(ctx, r, namespace, selected, wide)
	}
	list := &reportsv1.ImageList{}
	err = r.eachImage(ctx, namespace, selected, func(image *reportsv1.Image) error {
		if o.takes(image) {
			list.Items = append(list.Items, *image)
		}
		return nil
	})
	if err != nil {
		return explainReports(o.session, err)
	}
	return o.out.Print(o.session, list)
}

func (o *imagesOptions) takes(image *reportsv1.Image) bool {
	bad := []string{reportsv1.ImageFailed, reportsv1.ImageQuarantined, reportsv1.ImageSkipped}
	return (!o.failed || slices.Contains(bad, image.Status.State)) &&
		(o.severity == "" || atLeast(counts(image.Status.Vulnerabilities), o.severity) > 0)
}

// table prints images page by page.
func (o *imagesOptions) table(ctx context.Context, r *reader, namespace string, selected fields.Set, wide bool) error {
	show, rows := output.PrintTables(o.session.Out, output.TableOptions{Wide: wide, WithNamespace: o.all, Columns: o.session.Columns}), 0
	page := imageTable()
	flush := func() error {
		rows += len(page.Rows)
		if len(page.Rows) == 0 {
			return nil
		}
		err := show(page)
		page = imageTable()
		return err
	}
	err := r.eachImage(ctx, namespace, selected, func(image *reportsv1.Image) error {
		if !o.takes(image) {
			return nil
		}
		page.Rows = append(page.Rows, metav1.TableRow{Cells: imageCells(image, o.session.Now()), Object: runtime.RawExtension{Object: image.DeepCopy()}})
		if len(page.Rows) < pageSize {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return explainReports(o.session, err)
	}
	if rows == 0 {
		fmt.Fprintln(o.session.ErrOut, "There are no such images. Look for new ones: "+o.session.Suggest("registry", "discover", "NAME"))
	}
	return nil
}

func imageTable() *metav1.Table {
	t := &metav1.Table{}
	for i, name := range []string{
		"Reference", "Platform", "State", "Critical", "High", "Fixable", "Scanned", "Age", "Digest", "Presence", "Reason", "Size", "Name",
	} {
		column := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if i > 7 {
			column.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, column)
	}
	return t
}

func imageCells(image *reportsv1.Image, now time.Time) []any {
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	v := image.Status.Vulnerabilities
	if v == nil {
		v = &reportsv1.VulnerabilitySummary{}
	}
	return []any{
		termsafe.Line(called(image)), image.Spec.Platform, image.Status.State, number(v.Critical), number(v.High), number(v.Fixable),
		ago(image.Status.ScannedAt, now), ago(&image.CreationTimestamp, now), short(image.Spec.Digest), string(image.Status.Presence),
		image.Status.Reason, size(image.Spec.CompressedBytes), image.Name,
	}
}

// ago is how long ago something was; empty if it never was.
func ago(at *metav1.Time, now time.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return view.Short(now.Sub(at.Time))
}

// stamp is a time with how long ago it was.
func stamp(at *metav1.Time, now time.Time) string {
	switch {
	case at == nil || at.IsZero():
		return ""
	case at.After(now):
		return at.UTC().Format(time.RFC3339) + " (in " + view.Short(at.Sub(now)) + ")"
	}
	return at.UTC().Format(time.RFC3339) + " (" + view.Short(now.Sub(at.Time)) + " ago)"
}

// short is the beginning of a digest.
func short(digest string) string {
	const digits = 12
	_, sum, found := strings.Cut(digest, ":")
	if !found {
		sum = digest
	}
	return sum[:min(len(sum), digits)]
}

// size is a number of bytes for people.
func size(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	const step = 1024
	unit, value := "B", float64(bytes)
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < step {
			break
		}
		unit, value = next, value/step
	}
	if unit == "B" {
		return resource.NewQuantity(bytes, resource.DecimalSI).String() + "B"
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

func newImageCommand(s *session.Session) *cobra.Command {
	var o chosen
	cmd := &cobra.Command{
		Use:   "image REF",
		Short: "Show one image: its layers, its state, what was tried",
		Long: `Show one image: its layers and the commands that made them, its tags, how far it is, and what was
tried where it is not scanned.

REF is HOST/REPOSITORY:TAG, REPOSITORY:TAG, REPOSITORY@DIGEST, or the name of the Image.`,
		Example: `  {{program}} registry image registry.example.com/shop/api:1.2
  {{program}} registry image shop/api:1.2 --platform linux/arm64`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return showImage(cmd.Context(), s, args[0], o) },
	}
	o.bind(cmd)
	return cmd
}

func showImage(ctx context.Context, s *session.Session, text string, o chosen) error {
	r, err := newReader(s)
	if err != nil {
		return err
	}
	image, err := r.image(ctx, text, o)
	if err != nil {
		return err
	}
	tags, err := r.tagsOf(ctx, image)
	if err != nil {
		return explainReports(s, err)
	}
	w := output.NewWrapped(s, s.Out)
	spec, status, now := &image.Spec, &image.Status, s.Now()
	w.Field("Image", called(image))
	w.Field("Name", image.Namespace+"/"+image.Name)
	w.Field("Registry", spec.Registry.Name)
	w.Field("Platform", spec.Platform)
	w.Field("Digest", spec.Digest)
	w.Field("Index", spec.IndexDigest)
	w.Field("Other tags", strings.Join(tags, ", "))
	w.Field("Created", stamp(spec.Created, now))
	w.Field("Size", size(spec.CompressedBytes))
	w.Field("Flags", strings.Join(spec.Flags, ", "))
	w.Field("Presence", string(status.Presence)+suffix(" since ", stamp(status.GoneTime, now)))
	w.Field("State", status.State+suffix(", ", status.Reason)+suffix(": ", termsafe.Line(status.Message)))
	w.Field("First seen", stamp(status.FirstSeenTime, now))
	if work := status.Work; work != nil {
		w.Field("Tries", tries(work))
		w.Field("Not before", stamp(work.NotBefore, now))
		w.Field("Worker", work.Worker)
	}
	if sbom := status.SBOM; sbom != nil {
		w.Field("SBOM", fmt.Sprintf("%s by %s, %s", view.Plural(sbom.Packages, "package"), engine(sbom.Engine), stamp(sbom.GeneratedAt, now)))
	}
	if status.Vulnerabilities != nil {
		w.Field("Vulnerabilities", inWords(counts(status.Vulnerabilities)))
	}
	w.Field("Scanned", stamp(status.ScannedAt, now))
	if d := status.Database; d != nil {
		w.Field("Data", d.Name+" "+short(d.Version)+suffix(", built ", stamp(d.BuiltAt, now)))
	}
	for i, l := range spec.Layers {
		w.Field(fmt.Sprintf("Layer %d", i+1), strings.Join([]string{short(l.Digest), size(l.Bytes), termsafe.Line(l.Command)}, "  "))
	}
	return w.Flush()
}

// tries says how often an image was tried; empty if the first time went well.
func tries(w *reportsv1.Work) string {
	if w.Attempt == 0 && w.Crashes == 0 && w.Lost == 0 {
		return ""
	}
	text := fmt.Sprintf("%d", w.Attempt)
	if w.Crashes > 0 {
		text += fmt.Sprintf(", %d ended the adapter", w.Crashes)
	}
	if w.Lost > 0 {
		text += fmt.Sprintf(", %d lost with their worker", w.Lost)
	}
	return text
}

// tagsOf are the other tags of an image's digest in its repository.
func (r *reader) tagsOf(ctx context.Context, image *reportsv1.Image) (tags []string, err error) {
	selected := fields.Set{"spec.digest": image.Spec.Digest, "spec.repository": image.Spec.Repository, "status.presence": string(reportsv1.ImagePresent)}
	err = r.eachImage(ctx, image.Namespace, selected, func(other *reportsv1.Image) error {
		if other.Spec.Tag != image.Spec.Tag && other.Spec.Registry.UID == image.Spec.Registry.UID {
			tags = append(tags, other.Spec.Tag)
		}
		return nil
	})
	slices.Sort(tags)
	return tags, err
}

func engine(e *reportsv1.Engine) string {
	if e == nil {
		return "an unknown engine"
	}
	return strings.TrimSpace(e.Name + " " + e.Version)
}

func suffix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}
