// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/vexdoc"
)

// statement is a statement of a document, with what its import does.
type statement struct {
	Name, Link, Status, Reason, Matches, Does, Class string
	Problems                                         []string
}

// vexForm is what the page for VEX documents shows.
type vexForm struct {
	CSRF, Namespace, Cluster, Expires, Document, Tomorrow string
	Problems                                              []string
	// Missed are parts of the document that make no exception.
	Missed     []vexdoc.Problem
	Statements []statement
	Done       bool
	Denied     string
}

func (p *pages) vexView(f *vexForm) *web.View {
	return &web.View{Title: "Import a VEX document", Section: "Exceptions", Template: p.vexTemplate, Data: f}
}

// vex shows the form for a VEX document.
func (p *pages) vex(q *web.Request) (*web.View, error) {
	f := &vexForm{CSRF: q.Session.CSRF, Namespace: q.Scope.Single(), Tomorrow: dateOf(q.Now.AddDate(0, 0, 1))}
	if f.Namespace == "" {
		f.Namespace = q.Viewer.Namespace
	}
	var err error
	if f.Namespace != "" {
		_, f.Denied, err = q.Rights(settingsv1alpha2.SchemeGroupVersion.Group, "findingexceptions", f.Namespace, "create", "update")
	}
	return p.vexView(f), err
}

// sendVEX shows what a VEX document would make, or makes it. What was shown is sent again with the document in it, so that
// nothing is kept here.
func (p *pages) sendVEX(q *web.Request) (string, *web.View, error) {
	text := func(name string) string { return strings.TrimSpace(q.PostFormValue(name)) }
	f := &vexForm{
		CSRF: q.Session.CSRF, Namespace: text("namespace"), Cluster: text("cluster"), Expires: text("expires"), Document: text("document"),
		Tomorrow: dateOf(q.Now.AddDate(0, 0, 1)),
	}
	if err := f.upload(q.Request); err != nil {
		return "", nil, err
	}
	view := p.vexView(f)
	var end *metav1.Time
	var err error
	if f.Expires != "" {
		if end, err = endOf(f.Expires, q.Now); err != nil {
			f.Problems = append(f.Problems, "End: "+err.Error()+".")
		}
	}
	if f.Cluster == "" {
		if errs := validation.IsDNS1123Label(f.Namespace); len(errs) > 0 {
			f.Problems = append(f.Problems, "Namespace: "+strings.Join(errs, "; ")+".")
		}
	}
	statements, missed, err := vexdoc.Read([]byte(f.Document))
	if err != nil {
		f.Problems = append(f.Problems, "Document: "+err.Error()+".")
	}
	if f.Missed = missed; len(f.Problems) > 0 {
		return "", view, nil
	}
	f.Done, view.Code = q.PostFormValue("do") == "import", http.StatusOK
	for i := range statements {
		s := &statements[i]
		if s.Spec.ExpiresAt == nil {
			s.Spec.ExpiresAt = end
		}
		shown := statement{
			Name: s.Name, Status: string(s.Spec.Status), Reason: s.Spec.Reason, Matches: summary(s.Spec.Match), Link: path(f.namespace(), s.Name),
		}
		does, err := f.apply(q.Context(), q.Viewer, s)
		switch {
		case err == nil:
			shown.Does, shown.Class = does, "good"
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), apierrors.IsConflict(err):
			shown.Does, shown.Class, shown.Problems, shown.Link = "refused", "bad", saidBy(err), ""
		default:
			return "", nil, err
		}
		f.Statements = append(f.Statements, shown)
	}
	return "", view, nil
}

// upload takes the document of a file, where one was sent.
func (f *vexForm) upload(r *http.Request) error {
	file, _, err := r.FormFile("file")
	if errors.Is(err, http.ErrMissingFile) || errors.Is(err, http.ErrNotMultipart) {
		return nil
	}
	if err != nil {
		return &web.Problem{
			Code: http.StatusBadRequest, Title: "The document cannot be read.", Text: err.Error(),
			Remedy: "scanyard exceptions import reads documents of more than 1 MiB.",
		}
	}
	defer func() { _ = file.Close() }() // only read from
	document, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("read file: %w", err)
	}
	if len(document) > 0 {
		f.Document = string(document)
	}
	return nil
}

// namespace of the exceptions; empty for those of the cluster.
func (f *vexForm) namespace() string {
	if f.Cluster != "" {
		return ""
	}
	return f.Namespace
}

// apply makes an exception, or changes the one of that name to what the document says. Before it is asked to, the API server
// is only asked whether it would.
func (f *vexForm) apply(ctx context.Context, c client.Client, s *vexdoc.Statement) (string, error) {
	var creating []client.CreateOption
	var updating []client.UpdateOption
	if !f.Done {
		creating, updating = append(creating, client.DryRunAll), append(updating, client.DryRunAll)
	}
	object, spec := f.object(s.Name)
	*spec = s.Spec
	if problem := f.check(object); problem != nil {
		return "", apierrors.NewBadRequest(problem.String())
	}
	err := c.Create(ctx, object, creating...)
	if !apierrors.IsAlreadyExists(err) {
		return "new", err
	}
	stored, before := f.object(s.Name)
	if err := c.Get(ctx, client.ObjectKeyFromObject(stored), stored); err != nil {
		return "", fmt.Errorf("read exception: %w", err)
	}
	want, changed := s.Over(before)
	if !changed {
		return "there already", nil
	}
	*before = want
	return "changed", c.Update(ctx, stored, updating...)
}

func (f *vexForm) check(object client.Object) *exception.Problem {
	if k, ok := keptOf(object); ok {
		return exception.Check(k.Exception)
	}
	return nil
}

// object is an empty exception of the wanted kind, and where its spec is.
func (f *vexForm) object(name string) (client.Object, *settingsv1alpha2.ExceptionSpec) {
	if f.Cluster != "" {
		e := &settingsv1alpha2.ClusterFindingException{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return e, &e.Spec.ExceptionSpec
	}
	e := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	return e, &e.Spec.ExceptionSpec
}
