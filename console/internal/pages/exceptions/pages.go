// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"embed"
	"fmt"
	"html/template"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/exception"
)

//go:embed list.html one.html form.html vex.html parts.html
var files embed.FS

type pages struct {
	listTemplate, oneTemplate, formTemplate, vexTemplate *template.Template
}

const (
	namespaced = "/exceptions/{namespace}/{name}"
	ofCluster  = "/clusterexceptions/{name}"
)

// Register adds the pages of exceptions.
func Register(a *web.App) error {
	p := &pages{}
	if err := a.Templates(files, map[string]**template.Template{
		"list.html": &p.listTemplate, "one.html": &p.oneTemplate, "form.html": &p.formTemplate, "vex.html": &p.vexTemplate,
	}, "parts.html"); err != nil {
		return err
	}
	a.Page("GET /exceptions", p.list)
	a.Page("GET /exceptions/new", p.empty)
	a.Form("POST /exceptions", p.send)
	a.Page("GET /exceptions/import", p.vex)
	a.Form("POST /exceptions/import", p.sendVEX)
	for _, path := range []string{namespaced, ofCluster} {
		a.Page("GET "+path, p.one)
		a.Action("POST "+path+"/extend", p.extend)
		a.Action("POST "+path+"/end", p.end)
		a.Action("POST "+path+"/delete", p.remove)
	}
	return nil
}

// kept is a stored exception of either kind.
type kept struct {
	exception.Exception

	Object client.Object
	Spec   *settingsv1alpha2.ExceptionSpec
	Status *settingsv1alpha2.FindingExceptionStatus
}

func keptOf(object client.Object) (kept, bool) {
	switch e := object.(type) {
	case *settingsv1alpha2.FindingException:
		return kept{exception.Of(e), e, &e.Spec.ExceptionSpec, &e.Status}, true
	case *settingsv1alpha2.ClusterFindingException:
		return kept{exception.OfCluster(e), e, &e.Spec.ExceptionSpec, &e.Status}, true
	}
	return kept{}, false
}

// resource is the kind of the exception as rights name it.
func (k *kept) resource() string {
	if k.Namespace == "" {
		return "clusterfindingexceptions"
	}
	return "findingexceptions"
}

// path is the page of an exception.
func path(namespace, name string) string {
	if namespace == "" {
		return "/clusterexceptions/" + url.PathEscape(name)
	}
	return "/exceptions/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// read is the exception that the address names.
func read(q *web.Request) (kept, error) {
	var object client.Object = &settingsv1alpha2.FindingException{}
	if q.PathValue("namespace") == "" {
		object = &settingsv1alpha2.ClusterFindingException{}
	}
	if err := q.Viewer.Get(q.Context(), client.ObjectKey{Namespace: q.PathValue("namespace"), Name: q.PathValue("name")}, object); err != nil {
		return kept{}, fmt.Errorf("read exception: %w", err)
	}
	k, ok := keptOf(object)
	if !ok {
		return kept{}, fmt.Errorf("%T is not an exception", object)
	}
	return k, nil
}

// soon is before which end an exception is about to end.
const soon = 14 * 24 * time.Hour

// The states that a list can be narrowed to.
const (
	active  = "active"
	ending  = "ending"
	notYet  = "notyet"
	ended   = "ended"
	invalid = "invalid"
)

// state is what an exception is now, with its word and class of colour.
type state struct{ Value, Word, Class string }

var (
	isActive  = state{active, "Active", "good"}
	isEnding  = state{ending, "Ends soon", "wait"}
	isNotYet  = state{notYet, "Not yet", "off"}
	isEnded   = state{ended, "Ended", "off"}
	isInvalid = state{invalid, "Invalid", "bad"}
)

func (k *kept) state(now time.Time) state {
	phase := k.PhaseAt(now)
	condition := meta.FindStatusCondition(k.Status.Conditions, settingsv1alpha2.ConditionActive)
	switch {
	case phase == exception.Expired:
		return isEnded
	case condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason == settingsv1alpha2.ReasonInvalid:
		return isInvalid
	case phase == exception.NotYet:
		return isNotYet
	case k.Spec.ExpiresAt != nil && k.Spec.ExpiresAt.Sub(now) < soon:
		return isEnding
	}
	return isActive
}
