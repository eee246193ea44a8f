// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/apis/strictyaml"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

// previewOptions are the flags of preview.
type previewOptions struct {
	waiting

	file string
	why  string
}

func newPreviewCommand(s *session.Session) *cobra.Command {
	o := &previewOptions{waiting: waiting{session: s, quiet: true}}
	cmd := &cobra.Command{
		Use:   "preview NAME",
		Short: "See what a filter takes, and why not the rest",
		Long: `List the registry as the Registry or the filter of a file says, and show what would be taken, what not,
and why. Nothing is stored. The file is a Registry, or only its filter: repositories,
excludeRepositories, platforms, tags, rules.

With --why and no file nothing is listed: the last discovery knows why a tag was left out. TAG is a tag,
or REPOSITORY:TAG.

Exit codes: 0 done, 1 errored, 3 --timeout has passed.`,
		Example: `  {{program}} registry preview prod
  {{program}} registry preview prod --file registry.yaml
  {{program}} registry preview prod --why shop/api:1.2-debug`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: names(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "`file` with a Registry or a filter; - is standard input")
	f.StringVar(&o.why, "why", "", "say only why this `tag` is taken or not")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "exit with code 3 after this long")
	return cmd
}

func (o *previewOptions) run(ctx context.Context, name string) error {
	if o.why != "" && o.file == "" {
		return o.explainTag(ctx, name)
	}
	job := &registryv1alpha1.DiscoveryJob{}
	job.Spec.Registry, job.Spec.DryRun = name, true
	if o.file != "" {
		override, err := readFilter(o.session, o.file)
		if err != nil {
			return err
		}
		job.Spec.Override = override
	}
	c, registry, err := find(ctx, o.session, name)
	if err != nil {
		return err
	}
	job.Namespace, job.GenerateName = registry.Namespace, name+"-preview-"
	if err := c.Create(ctx, job); err != nil {
		return o.session.Explain(fmt.Errorf("create %s: %w", kindDiscovery, err))
	}
	// The job is of no use afterwards, whatever has become of the preview.
	last := context.WithoutCancel(ctx)
	final, err := o.ended(ctx, c, job)
	if deleted := c.Delete(last, job); client.IgnoreNotFound(deleted) != nil {
		err = errors.Join(err, o.session.Explain(fmt.Errorf("delete %s/%s: %w", kindDiscovery, job.Name, deleted)))
	}
	if err != nil {
		return err
	}
	return o.print(final)
}

// ended waits for the end of the dry run.
func (o *previewOptions) ended(ctx context.Context, c client.WithWatch, job *registryv1alpha1.DiscoveryJob) (*registryv1alpha1.DiscoveryJob, error) {
	final, err := o.until(ctx, c, job, "see why: "+o.session.Suggest("registry", "describe", job.Spec.Registry))
	if err != nil {
		return nil, err
	}
	done, ok := final.(*registryv1alpha1.DiscoveryJob)
	if !ok {
		return nil, fmt.Errorf("the API server sent %T", final)
	}
	if end := ended(done); end.Status == metav1.ConditionFalse {
		return nil, fmt.Errorf("the preview is %s%s", end.Reason, suffix(": ", termsafe.Line(end.Message)))
	}
	return done, nil
}

// readFilter reads a Registry, of which the filter is taken, or a filter alone.
func readFilter(s *session.Session, file string) (*registryv1alpha1.Filter, error) {
	var content []byte
	var err error
	name := file
	if file == "-" {
		name = "standard input"
		content, err = io.ReadAll(s.In)
	} else {
		content, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var head struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(content, &head); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if head.Kind == "" {
		filter := &registryv1alpha1.Filter{}
		_, err := strictyaml.Decode(name, content, filter)
		return filter, err
	}
	if head.Kind != "Registry" {
		return nil, fmt.Errorf("%s is a %s: it must be a Registry, or a filter alone", name, termsafe.Line(head.Kind))
	}
	registry := &registryv1alpha1.Registry{}
	if _, err := strictyaml.Decode(name, content, registry); err != nil {
		return nil, err
	}
	return &registry.Spec.Filter, nil
}

func (o *previewOptions) print(job *registryv1alpha1.DiscoveryJob) error {
	s, status := o.session, &job.Status
	preview := status.Preview
	if preview == nil {
		preview = &registryv1alpha1.Preview{}
	}
	if o.why != "" {
		return o.whyOf(preview)
	}
	for _, tag := range preview.Selected {
		fmt.Fprintf(s.Out, "%s  %s\n", s.Paint(session.Good, "+"), termsafe.Line(tag))
	}
	for _, skipped := range preview.Skipped {
		fmt.Fprintf(s.Out, "%s  %s  %s\n", s.Paint(session.Quiet, "-"), termsafe.Line(skipped.Tag), skipped.Reason)
	}
	if t := status.Tags; t != nil {
		var reasons []string
		for _, reason := range slices.Sorted(maps.Keys(t.ByReason)) {
			reasons = append(reasons, fmt.Sprintf("%d %s", t.ByReason[reason], reason))
		}
		fmt.Fprintf(s.Out, "%d of %s taken%s\n", t.Selected, plural(t.Listed, "tag", "tags"), suffix("; left out: ", strings.Join(reasons, ", ")))
		if shown := int64(len(preview.Selected) + len(preview.Skipped)); shown < t.Selected+t.Skipped {
			fmt.Fprintf(s.Out, "Shown are %d of %d; narrow the filter to see others.\n", shown, t.Selected+t.Skipped)
		}
	}
	for _, w := range status.Warnings {
		fmt.Fprintf(s.Out, "warning: %s, %d times%s\n", w.Code, w.Count, suffix(": ", termsafe.Line(strings.Join(w.Examples, ", "))))
	}
	return nil
}

// whyOf looks a tag up in what a dry run has told.
func (o *previewOptions) whyOf(p *registryv1alpha1.Preview) error {
	found := false
	means := func(tag string) bool {
		_, last, _ := strings.Cut(tag[strings.LastIndexByte(tag, '/')+1:], ":")
		return tag == o.why || last == o.why
	}
	for _, tag := range p.Selected {
		if means(tag) {
			found = true
			fmt.Fprintf(o.session.Out, "%s is taken\n", termsafe.Line(tag))
		}
	}
	for _, skipped := range p.Skipped {
		if means(skipped.Tag) {
			found = true
			fmt.Fprintf(o.session.Out, "%s is left out: %s\n", termsafe.Line(skipped.Tag), skipped.Reason)
		}
	}
	if !found {
		return fmt.Errorf("%q is not among the tags that the preview lists, which are 100 of each kind at most: name its repository alone in the file", o.why)
	}
	return nil
}

// explainTag asks the last discovery why a tag was left out.
func (o *previewOptions) explainTag(ctx context.Context, name string) error {
	if _, _, err := find(ctx, o.session, name); err != nil {
		return err
	}
	r, err := newReader(o.session)
	if err != nil {
		return err
	}
	wanted := reference{tag: o.why}
	if strings.ContainsAny(o.why, ":/") {
		wanted = parseReference(o.why)
	}
	found := [][]string{{"TAG", "TAKEN", "REASON", "CREATED", "PLATFORMS", "DIGEST"}}
	err = r.eachRepository(ctx, name, func(repository *reportsv1.Repository) error {
		host := repository.Spec.Registry.Host
		if repository.Spec.Repository == "" || wanted.path != "" && !wanted.names(host, repository.Spec.Repository) {
			return nil
		}
		tags, err := r.tags(ctx, repository, wanted.tag)
		for i := range tags {
			found = append(found, whyCells(repository, &tags[i]))
		}
		return err
	})
	if err != nil {
		return explainReports(o.session, err)
	}
	if len(found) == 1 {
		return fmt.Errorf("the last discovery of %s knows no tag %q; look again: %s", name, o.why, o.session.Suggest("registry", "discover", name))
	}
	d := document{session: o.session, format: formatTable}
	return d.write(func(out io.Writer) error {
		table := d.table(out)
		for _, cells := range found {
			if err := table.row(cells); err != nil {
				return err
			}
		}
		return table.end()
	})
}

func whyCells(repository *reportsv1.Repository, t *reportsv1.Tag) []string {
	taken, created := "no", ""
	if t.Selected {
		taken = "yes"
	}
	if t.Created != nil {
		created = t.Created.UTC().Format(time.DateOnly)
	}
	return []string{repository.Spec.Repository + ":" + t.Tag, taken, t.Reason, created, strings.Join(t.Platforms, ", "), short(t.Digest)}
}

// eachRepository reads the Repositories of a Registry.
func (r *reader) eachRepository(ctx context.Context, registry string, visit func(*reportsv1.Repository) error) error {
	next := ""
	selected := fields.Set{"spec.registry.name": registry}
	for {
		list := &reportsv1.RepositoryList{}
		o := &client.ListOptions{Namespace: r.namespace, FieldSelector: selected.AsSelector(), Limit: pageSize, Continue: next}
		if err := r.List(ctx, list, o); err != nil {
			return fmt.Errorf("list Repositories: %w", err)
		}
		for i := range list.Items {
			if err := visit(&list.Items[i]); err != nil {
				return err
			}
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// tags are those of a repository that have a name, as the last discovery saw them.
func (r *reader) tags(ctx context.Context, repository *reportsv1.Repository, tag string) (_ []reportsv1.Tag, err error) {
	body, err := r.open(ctx, repository.Namespace, resourceRepositories, repository.Name, "tags", "tag", tag)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	var all struct {
		Tags []reportsv1.Tag `json:"tags"`
	}
	if err := json.NewDecoder(body).Decode(&all); err != nil {
		return nil, fmt.Errorf("read the tags of %s: %w", repository.Spec.Repository, err)
	}
	return all.Tags, nil
}
