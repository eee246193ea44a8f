// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/feed"
	"github.com/scanyard/scanyard/registry/internal/job"
)

const (
	// heads are how many waiting items of a job are known at once.
	heads = 200
	// page is that of a list.
	page = 500
	// mostNoted bounds errors and warnings of a status, mostExamples those of a warning.
	mostNoted    = 20
	mostExamples = 5
	longReason   = 64
	longMessage  = 1024
)

// Reader asks the reports API. Its client has no cache: answers are those of now.
type Reader struct{ Client client.Client }

// Job is what a job wants.
type Job struct {
	Kind      job.Kind
	Namespace string
	Name, UID string
	Spec      registryv1alpha1.JobSpec
	// Registry that the job works for.
	Registry *registryv1alpha1.Registry
	// StopAfter is how far a DiscoveryJob takes new images.
	StopAfter registryv1alpha1.StopAfter
	// Images and Mode are those of a ScanJob.
	Images []string
	Mode   registryv1alpha1.Mode
	// Adapter makes SBOMs and matches them. Database is what a match is counted by.
	Adapter  string
	Database reportsv1.VulnerabilityDatabaseStatus
	Started  time.Time
	Now      time.Time
}

// Head is an item that waits.
type Head struct {
	Step      feed.Step
	Name, UID string
	Content   string
	Bytes     int64
	NotBefore time.Time
	Since     time.Time
	Alone     bool
}

// Found is what the items of a job are.
type Found struct {
	Items   job.Items
	Listing bool
	Heads   []Head

	Repositories registryv1alpha1.RepositoryCounts
	Tags         registryv1alpha1.TagCounts
	Images       registryv1alpha1.FoundImages
	SBOMs        registryv1alpha1.DocumentCounts
	Reports      registryv1alpha1.DocumentCounts
	Scanned      registryv1alpha1.ScannedImages

	Warnings    []registryv1alpha1.Warning
	Errors      []registryv1alpha1.ItemError
	ErrorsTotal int64
	// Refusal is the reason for which the registry could not be asked; "": it answered, or nobody has asked yet. Reached: it answered.
	Refusal, RefusalMessage string
	Reached                 bool
	// Catalog is what became of the catalogue: a reason of the condition CatalogAvailable; "": that is not known.
	Catalog string
}

// look is one pass over what a job wants.
type look struct {
	Reader

	job   Job
	found *Found
	// only are the images that the job narrows to; nil: all.
	only map[string]bool
}

func newLook(r Reader, j Job) *look { return &look{Reader: r, job: j, found: &Found{}} }

func (l *look) registryUID() string { return string(l.job.Registry.UID) }

// ask asks for images.
func (l *look) ask(ctx context.Context, spec reportsv1.ImageQuerySpec) (*reportsv1.ImageQueryStatus, error) {
	spec.RegistryUID = l.registryUID()
	if spec.Limit == 0 {
		spec.Limit = 1
	}
	query := &reportsv1.ImageQuery{ObjectMeta: metav1.ObjectMeta{Namespace: l.job.Namespace}, Spec: spec}
	if err := l.Client.Create(ctx, query); err != nil {
		return nil, fmt.Errorf("ask for images: %w", err)
	}
	return &query.Status, nil
}

// eachImage goes over Images of the Registry in one state, until do says stop.
func (l *look) eachImage(ctx context.Context, state string, do func(*reportsv1.Image) bool) error {
	selector := fields.Set{"spec.registry.uid": l.registryUID(), "status.presence": string(reportsv1.ImagePresent)}
	if state != "" {
		selector["status.state"] = state
	}
	return l.eachOf(ctx, selector, do)
}

// eachOf goes over the Images that a selector takes, until do says stop.
func (l *look) eachOf(ctx context.Context, selector fields.Set, do func(*reportsv1.Image) bool) error {
	next := ""
	for {
		list := &reportsv1.ImageList{}
		options := client.ListOptions{Namespace: l.job.Namespace, FieldSelector: selector.AsSelector(), Limit: page, Continue: next}
		if err := l.Client.List(ctx, list, &options); err != nil {
			return fmt.Errorf("list Images: %w", err)
		}
		for i := range list.Items {
			if !do(&list.Items[i]) {
				return nil
			}
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// repositories are those of the Registry, with the catalogue.
func (l *look) repositories(ctx context.Context) ([]reportsv1.Repository, error) {
	var all []reportsv1.Repository
	next := ""
	for {
		list := &reportsv1.RepositoryList{}
		options := client.ListOptions{
			Namespace: l.job.Namespace, FieldSelector: fields.OneTermEqualSelector("spec.registry.uid", l.registryUID()), Limit: page, Continue: next,
		}
		if err := l.Client.List(ctx, list, &options); err != nil {
			return nil, fmt.Errorf("list Repositories: %w", err)
		}
		all = append(all, list.Items...)
		if next = list.Continue; next == "" {
			return all, nil
		}
	}
}

// narrow notes the images that the job narrows to.
func (l *look) narrow(ctx context.Context) error {
	if len(l.job.Spec.Repositories) == 0 && len(l.job.Images) == 0 {
		return nil
	}
	l.only = map[string]bool{}
	return l.eachImage(ctx, "", func(image *reportsv1.Image) bool {
		named := len(l.job.Images) == 0 || slices.Contains(l.job.Images, image.Name)
		if named && narrowed(l.job.Spec.Repositories, image.Spec.Repository) {
			l.only[image.Name] = true
		}
		return true
	})
}

// narrowed tells whether a job's list of repositories has one.
func narrowed(patterns []string, repository string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
		name, _, _ := strings.Cut(pattern, "@")
		if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
			name = name[:colon]
		}
		return fits(name, repository)
	})
}

// fits tells whether a pattern fits: * is any run without /, ? one character, ** with /.
func fits(pattern, name string) bool {
	text := regexp.QuoteMeta(pattern)
	text = strings.NewReplacer(`\*\*`, `.*`, `\*`, `[^/]*`, `\?`, `[^/]`).Replace(text)
	matched, err := regexp.MatchString(`^`+text+`$`, name)
	return err == nil && matched
}

// waiting adds the images of an answer to the heads.
func (l *look) waiting(step feed.Step, items []reportsv1.ImageItem) int64 {
	var count int64
	for _, item := range items {
		if l.only != nil && !l.only[item.Name] {
			continue
		}
		count++
		head := Head{Step: step, Name: item.Name, UID: string(item.UID), Bytes: item.Bytes, Alone: item.Lost >= aloneAfter}
		if step == feed.SBOM {
			head.Content = item.Digest
		}
		if item.NotBefore != nil {
			head.NotBefore = item.NotBefore.Time
		}
		l.head(head)
	}
	return count
}

// aloneAfter that many lost tries an item needs a worker that does nothing else.
const aloneAfter = 2

func (l *look) head(h Head) {
	if h.Since.IsZero() {
		h.Since = l.job.Started
	}
	if len(l.found.Heads) < heads {
		l.found.Heads = append(l.found.Heads, h)
	}
}

// isMine tells whether an item was taken for the job.
func (l *look) isMine(w *reportsv1.Work) bool {
	return w != nil && w.Job != nil && w.Job.UID == l.job.UID
}

// isHeld tells whether somebody works on an item, and speaks.
func (l *look) isHeld(w *reportsv1.Work) bool {
	return w != nil && w.Claim != "" && w.LeaseExpiresAt != nil && w.LeaseExpiresAt.After(l.job.Now)
}

// fail notes an item that failed.
func (l *look) fail(item string, reason, message string, w *reportsv1.Work) {
	l.found.ErrorsTotal++
	if len(l.found.Errors) >= mostNoted {
		return
	}
	e := registryv1alpha1.ItemError{Item: item, Reason: cut(reason, longReason), Message: cut(message, longMessage)}
	if w != nil {
		e.Attempts = w.Attempt
	}
	l.found.Errors = append(l.found.Errors, e)
}

// warn adds a warning to those of the same code.
func (l *look) warn(code string, count int64, examples []string) {
	at := slices.IndexFunc(l.found.Warnings, func(w registryv1alpha1.Warning) bool { return w.Code == code })
	if at < 0 {
		if len(l.found.Warnings) >= mostNoted {
			return
		}
		l.found.Warnings = append(l.found.Warnings, registryv1alpha1.Warning{Code: code})
		at = len(l.found.Warnings) - 1
	}
	w := &l.found.Warnings[at]
	w.Count += count
	for _, example := range examples {
		if len(w.Examples) < mostExamples {
			w.Examples = append(w.Examples, example)
		}
	}
}

func cut(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "")
}

// refused are reasons that say that the registry could not be asked at all.
var refused = []string{
	registryv1alpha1.ReasonUnauthorized, registryv1alpha1.ReasonForbidden, registryv1alpha1.ReasonTLSFailed, registryv1alpha1.ReasonNameNotResolved,
	registryv1alpha1.ReasonUnreachable, registryv1alpha1.ReasonNoRegistry, registryv1alpha1.ReasonRateLimited, registryv1alpha1.ReasonSecretNotFound,
	registryv1alpha1.ReasonSecretForbidden, registryv1alpha1.ReasonHostNotAllowed,
}

// refusal notes why the registry could not be asked.
func (l *look) refusal(reason, message string) {
	if slices.Contains(refused, reason) {
		l.found.Refusal, l.found.RefusalMessage = reason, message
	}
}
