// SPDX-License-Identifier: Apache-2.0

package images

import (
	"embed"
	"html/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/web"
)

//go:embed list.html one.html registry.html compare.html who.html
var files embed.FS

type pages struct {
	listTemplate, oneTemplate, registryTemplate, compareTemplate, whoTemplate *template.Template
}

// Register adds the pages of images.
func Register(a *web.App) error {
	p := &pages{}
	if err := a.Templates(files, map[string]**template.Template{
		"list.html": &p.listTemplate, "one.html": &p.oneTemplate, "registry.html": &p.registryTemplate, "compare.html": &p.compareTemplate,
		"who.html": &p.whoTemplate,
	}); err != nil {
		return err
	}
	const (
		image    = "/images/{namespace}/{name}"
		registry = "/registries/{namespace}/{name}"
	)
	a.Page("GET /images", p.list)
	a.Page("GET /images/who", p.who)
	a.Page("GET "+image, p.one)
	a.Page("GET "+image+"/compare", p.compare)
	a.Page("GET "+registry, p.registry)
	a.Action("POST "+registry+"/discover", p.discover)
	a.Action("POST "+registry+"/scan", p.scan)
	a.Action("POST "+registry+"/suspend", p.suspend)
	return nil
}

const section = "Images"

// classes are the classes of colour of the states of images, repositories and jobs.
var classes = map[string]string{
	reportsv1alpha1.ImagePending: "wait", reportsv1alpha1.ImageGeneratingSBOM: "run", reportsv1alpha1.ImageWaitingForMatch: "wait",
	reportsv1alpha1.ImageMatching: "run", reportsv1alpha1.ImageScanned: "good", reportsv1alpha1.ImageFailed: "bad",
	reportsv1alpha1.ImageQuarantined: "bad", reportsv1alpha1.ImageSkipped: "off",
	reportsv1alpha1.RepositoryWaiting: "wait", reportsv1alpha1.RepositoryWorking: "run", reportsv1alpha1.RepositoryDone: "good",
}

func classOf(state string) string {
	if class, ok := classes[state]; ok {
		return class
	}
	return "off"
}

// imageLine is an image in a list.
type imageLine struct {
	Link, Name, Namespace, Tag, Digest, Platform, State, Class, Says, Presence string
	Counts                                                                     []web.Tally
	Fixable                                                                    int64
	Scanned                                                                    time.Time
	Clean                                                                      bool
}

func lineOf(i *reportsv1alpha1.Image) imageLine {
	l := imageLine{
		Link: "/images/" + i.Namespace + "/" + i.Name, Name: i.Name, Namespace: i.Namespace, Tag: i.Spec.Tag, Digest: short(i.Spec.Digest),
		Platform: i.Spec.Platform, State: i.Status.State, Class: classOf(i.Status.State), Scanned: timeOf(i.Status.ScannedAt),
	}
	if i.Status.Presence != reportsv1alpha1.ImagePresent {
		l.Presence = string(i.Status.Presence)
	}
	if l.Class == "bad" || l.Class == "off" {
		l.Says = i.Status.Message
	}
	if v := i.Status.Vulnerabilities; v != nil {
		l.Counts, l.Fixable = web.Ranked(countsOf(v)), value(v.Fixable)
		l.Clean = len(l.Counts) == 0
	}
	return l
}

func countsOf(v *reportsv1alpha1.VulnerabilitySummary) [5]int64 {
	return [5]int64{value(v.Critical), value(v.High), value(v.Medium), value(v.Low), value(v.Unknown)}
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// shortDigest is how many characters of a digest a list shows.
const shortDigest = len("sha256:") + 12

func short(digest string) string { return digest[:min(len(digest), shortDigest)] }
