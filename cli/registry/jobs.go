// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
)

func newDiscoverCommand(s *session.Session) *cobra.Command {
	spec := registryv1alpha1.DiscoveryJobSpec{}
	w := waiting{session: s}
	cmd := &cobra.Command{
		Use:   "discover NAME",
		Short: "Look for new images of a Registry now",
		Long: `Make a DiscoveryJob: the repositories of the Registry are listed, and new images get their SBOM and
their report. With --dry-run nothing is written but what would be taken, in the job's status.

` + exitCodes,
		Example: `  {{program}} registry discover prod
  {{program}} registry discover prod --wait --fail-on critical
  {{program}} registry discover prod --dry-run`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: names(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			spec.Registry = args[0]
			return w.start(cmd.Context(), args[0], &registryv1alpha1.DiscoveryJob{Spec: spec})
		},
	}
	cmd.Flags().BoolVar(&spec.Force, "force", false, "read known images again, and make their SBOMs anew")
	cmd.Flags().BoolVar(&spec.DryRun, "dry-run", false, "list and filter only; the job's status.preview tells what would be taken")
	w.bind(cmd)
	return cmd
}

const exitCodes = `With --wait the progress is shown until the job ends; Ctrl-C ends the showing, not the job.

Exit codes: 0 done, 1 errored, 2 images with vulnerabilities of the severity of --fail-on or above,
3 --timeout has passed.`

// scanOptions are the flags of scan.
type scanOptions struct {
	waiting
	chosen

	full  bool
	image string
}

func newScanCommand(s *session.Session) *cobra.Command {
	o := &scanOptions{waiting: waiting{session: s}}
	cmd := &cobra.Command{
		Use:   "scan NAME|REF",
		Short: "Match the SBOMs of a Registry, or of one image, with the newest vulnerability data now",
		Long: `Make a ScanJob: images whose packages newer data touches are matched again, or with --full all of them.
With --image only those whose REPOSITORY:TAG fits the pattern, in which * is any text without a slash.

REF is one image that a Registry has found, as HOST/REPOSITORY:TAG; that image is matched in any case.

` + exitCodes,
		Example: `  {{program}} registry scan prod
  {{program}} registry scan prod --full --image 'shop/*:1.*' --wait
  {{program}} registry scan registry.example.com/shop/api:1.2 --wait --fail-on high`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: names(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&o.full, "full", false, "look at every SBOM, whatever has changed")
	cmd.Flags().StringVar(&o.image, "image", "", "only images that this `pattern` fits, such as 'shop/*:1.*'")
	o.chosen.bind(cmd)
	o.waiting.bind(cmd)
	return cmd
}

func (o *scanOptions) run(ctx context.Context, text string) error {
	job := &registryv1alpha1.ScanJob{}
	if o.full {
		job.Spec.Mode = registryv1alpha1.ModeFull
	}
	job.Spec.Registry = text
	if strings.ContainsAny(text, "/:@") {
		if o.image != "" {
			return errors.New("--image goes with the name of a Registry: the reference names an image already")
		}
		r, err := newReader(o.session)
		if err != nil {
			return err
		}
		image, err := r.image(ctx, text, o.chosen)
		if err != nil {
			return err
		}
		if image.Spec.Registry.Name == "" {
			return fmt.Errorf("%s is in no Registry: its SBOM was brought along", called(image))
		}
		job.Spec.Registry, job.Spec.Images, job.Spec.Mode = image.Spec.Registry.Name, []string{image.Name}, registryv1alpha1.ModeFull
		return o.start(ctx, job.Spec.Registry, job)
	}
	if o.image != "" {
		images, err := o.fitting(ctx, text)
		if err != nil {
			return err
		}
		job.Spec.Images = images
	}
	return o.start(ctx, text, job)
}

// maxImages is how many images a job may name.
const maxImages = 1000

// fitting are the names of the images of a Registry that the pattern of --image fits.
func (o *scanOptions) fitting(ctx context.Context, name string) ([]string, error) {
	if _, err := path.Match(o.image, ""); err != nil {
		return nil, fmt.Errorf("--image %q: %w", o.image, err)
	}
	if _, _, err := find(ctx, o.session, name); err != nil {
		return nil, err
	}
	r, err := newReader(o.session)
	if err != nil {
		return nil, err
	}
	var images []string
	selected := fields.Set{"spec.registry.name": name, "status.presence": string(reportsv1.ImagePresent)}
	err = r.eachImage(ctx, r.namespace, selected, func(image *reportsv1.Image) error {
		whole := image.Spec.Repository
		if image.Spec.Tag != "" {
			whole += ":" + image.Spec.Tag
		}
		fits, err := path.Match(o.image, whole)
		if fits && o.takes(image) {
			images = append(images, image.Name)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, explainReports(o.session, err)
	case len(images) == 0:
		return nil, fmt.Errorf("no image of %s fits %q; see %s", name, o.image, o.session.Suggest("registry", "images", name))
	case len(images) > maxImages:
		return nil, fmt.Errorf("%d images of %s fit %q, and a job names %d at most: narrow the pattern, or leave out --image", len(images), name, o.image, maxImages)
	}
	return images, nil
}

func newRetryCommand(s *session.Session) *cobra.Command {
	quarantined := false
	w := waiting{session: s}
	cmd := &cobra.Command{
		Use:   "retry NAME",
		Short: "Try again what has failed in a Registry",
		Long: `Make a DiscoveryJob that does nothing else than try images and repositories again that have failed,
with no attempt counted; with --quarantined also images that have ended an adapter or a worker.

` + exitCodes,
		Example: `  {{program}} registry retry prod
  {{program}} registry retry prod --quarantined --wait`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: names(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			job := &registryv1alpha1.DiscoveryJob{}
			job.Spec.Registry, job.Spec.RetryOnly, job.Spec.Retry = args[0], true, []registryv1alpha1.Retry{registryv1alpha1.RetryFailed}
			if quarantined {
				job.Spec.Retry = append(job.Spec.Retry, registryv1alpha1.RetryQuarantined)
			}
			return w.start(cmd.Context(), args[0], job)
		},
	}
	cmd.Flags().BoolVar(&quarantined, "quarantined", false, "also images that have ended an adapter or a worker")
	w.bind(cmd)
	return cmd
}

// start makes a job for a Registry that is there, and waits for its end where that is asked for.
func (w *waiting) start(ctx context.Context, name string, job client.Object) error {
	c, registry, err := find(ctx, w.session, name)
	if err != nil {
		return err
	}
	job.SetNamespace(registry.Namespace)
	job.SetGenerateName(name + "-")
	kind := kindOf(job)
	if err := c.Create(ctx, job); err != nil {
		return w.session.Explain(fmt.Errorf("create %s: %w", kind, err))
	}
	fmt.Fprintf(w.session.Out, "%s/%s created\n", kind, job.GetName())
	if !w.wait {
		return nil
	}
	return w.run(ctx, c, job)
}

// kindOf is what a user calls a kind of job.
func kindOf(job client.Object) string {
	if _, is := job.(*registryv1alpha1.ScanJob); is {
		return kindScan
	}
	return kindDiscovery
}

const (
	kindDiscovery = "discoveryjob"
	kindScan      = "scanjob"
)

func newCancelCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel JOB...",
		Short: "End jobs for good",
		Long: `End jobs for good: nothing more is let in, and what is worked on is given back. What was made is kept.

JOB is the name of a DiscoveryJob or ScanJob, or discoveryjob/NAME or scanjob/NAME.`,
		Example: `  {{program}} registry cancel prod-x7k2p`,
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, name := range args {
				errs = append(errs, cancel(cmd.Context(), s, name))
			}
			return errors.Join(errs...)
		},
	}
}

func cancel(ctx context.Context, s *session.Session, name string) error {
	c, job, err := findJob(ctx, s, name)
	if err != nil {
		return err
	}
	if ended(job).Status != unknown {
		return fmt.Errorf("%s/%s has ended: %s", kindOf(job), job.GetName(), ended(job).Reason)
	}
	before, ok := job.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copy %T: it is not an object", job)
	}
	specOf(job).Cancel = true
	if err := c.Patch(ctx, job, client.MergeFrom(before)); err != nil {
		return s.Explain(fmt.Errorf("cancel %s: %w", name, err))
	}
	fmt.Fprintf(s.Out, "%s/%s is being cancelled\n", kindOf(job), job.GetName())
	return nil
}

// findJob reads the job that a user names.
func findJob(ctx context.Context, s *session.Session, text string) (client.WithWatch, client.Object, error) {
	c, namespace, err := s.Connect()
	if err != nil {
		return nil, nil, err
	}
	kind, name, named := strings.Cut(text, "/")
	if !named {
		kind, name = "", text
	}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	var missing error
	for _, job := range []client.Object{&registryv1alpha1.DiscoveryJob{}, &registryv1alpha1.ScanJob{}} {
		if kind != "" && kind != kindOf(job) {
			continue
		}
		err := c.Get(ctx, key, job)
		if err == nil {
			return c, job, nil
		}
		if client.IgnoreNotFound(err) != nil || isNotServed(err) {
			return nil, nil, explain(s, err)
		}
		missing = err
	}
	if missing == nil {
		return nil, nil, fmt.Errorf("%q: say discoveryjob/NAME or scanjob/NAME", text)
	}
	list := client.ObjectList(&registryv1alpha1.DiscoveryJobList{})
	if kind == kindScan {
		list = &registryv1alpha1.ScanJobList{}
	}
	return nil, nil, s.Missing(ctx, c, missing, "job", namespace, name, list)
}
