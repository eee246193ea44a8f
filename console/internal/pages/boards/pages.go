// SPDX-License-Identifier: Apache-2.0

package boards

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/pages/exceptions"
	"github.com/scanyard/scanyard/console/internal/pages/findings"
	"github.com/scanyard/scanyard/console/internal/pages/scans"
	"github.com/scanyard/scanyard/console/internal/pages/schedules"
	"github.com/scanyard/scanyard/console/internal/session"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/yamltext"
)

//go:embed list.html board.html
var files embed.FS

type pages struct{ listTemplate, boardTemplate *template.Template }

// Register adds the pages of boards.
func Register(a *web.App) error {
	p := &pages{}
	if err := a.Templates(files, map[string]**template.Template{"list.html": &p.listTemplate, "board.html": &p.boardTemplate}); err != nil {
		return err
	}
	const own = "/myboards/{name}"
	a.Page("GET /boards", p.list)
	a.Action("POST /boards", p.keep)
	a.Page("GET "+own, p.own)
	a.Action("POST "+own+"/remove", p.remove)
	a.Action("POST "+own+"/share", p.share)
	a.Page("GET /boards/{namespace}/{name}", p.shared)
	return nil
}

type list struct {
	Own, Shared []board
	Example     string
}

func (p *pages) list(q *web.Request) (*web.View, error) {
	d := &list{}
	own := q.Boards()
	for i := range own {
		d.Own = append(d.Own, ownBoard(&own[i]))
	}
	add := func(o client.Object) error {
		if c, ok := o.(*corev1.ConfigMap); ok {
			b := boardOf(c)
			if !slices.ContainsFunc(d.Shared, func(other board) bool { return other.Link == b.Link }) {
				d.Shared = append(d.Shared, b)
			}
		}
		return nil
	}
	denials, err := q.Viewer.Each(q.Context(), q.Scope, &corev1.ConfigMapList{}, add, client.HasLabels{Label})
	if err != nil {
		return nil, err
	}
	notes := web.Notes("Boards", denials, nil)
	if !q.Scope.All() {
		// Those of the cluster may be in any namespace; who may not list all of them sees those of the chosen ones.
		if _, err := q.Viewer.Each(q.Context(), cluster.Scope{}, &corev1.ConfigMapList{}, add, client.MatchingLabels{Label: ofCluster}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(d.Shared, func(a, b board) int { return strings.Compare(a.Link, b.Link) })
	return &web.View{Title: "Boards", Section: "Boards", Template: p.listTemplate, Data: d, Notes: notes}, nil
}

// panel is a filter of a board with what is behind it.
type panel struct {
	session.Filter
	*web.Panel

	Index   int
	Problem string
}

type shown struct {
	board

	CSRF, YAML, Denied string
	Panels             []panel
}

// summaries are the pages that a board shows in short; of others it has the link.
var summaries = map[string]func(*web.Request) (*web.Panel, error){
	"/findings": findings.Panel, "/scans": scans.Panel, "/schedules": schedules.Panel, "/exceptions": exceptions.Panel,
}

func (p *pages) show(q *web.Request, b *board) (*web.View, error) {
	d := &shown{board: *b, CSRF: q.Session.CSRF}
	chosen := q.Scope.Names
	reach, namespace := ofTeam, b.Namespace
	if b.Cluster {
		reach = ofCluster
	}
	if !b.Own && !b.Cluster {
		chosen = []string{b.Namespace}
	}
	for i, f := range b.Filters {
		one := panel{Filter: f, Index: i}
		address, err := addressOf(f.Address)
		if err == nil {
			if values := address.Query(); !b.Own && !b.Cluster && values.Get("ns") == "" {
				values.Set("ns", b.Namespace)
				address.RawQuery = values.Encode()
			}
			one.Address = address.String()
			if summarise := summaries[address.Path]; summarise != nil {
				one.Panel, err = summary(q, address, chosen, summarise)
			}
		}
		if err != nil {
			one.Problem = web.Said(err)
		}
		d.Panels = append(d.Panels, one)
	}
	if namespace == "" {
		namespace = "NAMESPACE"
	}
	var err error
	if d.YAML, err = yamlOf(b.configMap(namespace, reach)); err != nil {
		return nil, err
	}
	return &web.View{Title: b.Title, Section: "Boards", Template: p.boardTemplate, Data: d, Notes: b.Problems}, nil
}

func summary(q *web.Request, address *url.URL, chosen []string, summarise func(*web.Request) (*web.Panel, error)) (*web.Panel, error) {
	at, err := q.At(address, chosen)
	if err != nil {
		return nil, err
	}
	return summarise(at)
}

// yamlOf is an object as a file has it.
func yamlOf(c *corev1.ConfigMap) (string, error) {
	raw, err := json.Marshal(map[string]any{
		"apiVersion": c.APIVersion, "kind": c.Kind, "data": c.Data,
		"metadata": map[string]any{"namespace": c.Namespace, "name": c.Name, "labels": c.Labels},
	})
	if err != nil {
		return "", fmt.Errorf("write board: %w", err)
	}
	text, err := yamltext.Of(raw)
	return string(text), err
}

func (p *pages) shared(q *web.Request) (*web.View, error) {
	c := &corev1.ConfigMap{}
	if err := q.Viewer.Get(q.Context(), client.ObjectKey{Namespace: q.PathValue("namespace"), Name: q.PathValue("name")}, c); err != nil {
		return nil, fmt.Errorf("read board: %w", err)
	}
	if c.Labels[Label] == "" {
		return nil, &web.Problem{Code: http.StatusNotFound, Title: "This is not a board.", Text: "A ConfigMap is one with the label " + Label + "."}
	}
	b := boardOf(c)
	return p.show(q, &b)
}

// find is the place of an own board.
func find(own []session.Board, name string) (int, error) {
	at := slices.IndexFunc(own, func(b session.Board) bool { return b.Name == name })
	if at < 0 {
		return 0, &web.Problem{Code: http.StatusNotFound, Title: "You have no such board.", Text: "Own boards are kept by the browser that they were made in."}
	}
	return at, nil
}

func (p *pages) own(q *web.Request) (*web.View, error) {
	own := q.Boards()
	at, err := find(own, q.PathValue("name"))
	if err != nil {
		return nil, err
	}
	b := ownBoard(&own[at])
	return p.show(q, &b)
}

// keep puts a filter on an own board, which is made where there is none of its name.
func (p *pages) keep(q *web.Request) (string, error) {
	name, title := strings.TrimSpace(q.PostFormValue("board")), strings.TrimSpace(q.PostFormValue("title"))
	if name == "" || len(name) > maxName || len(title) > maxTitle || strings.ContainsAny(name, "/\n\r") {
		return "", &web.Problem{Code: http.StatusBadRequest, Title: "This cannot be the name of a board.", Text: "It must be one line without a slash."}
	}
	address, err := addressOf(q.PostFormValue("address"))
	if err != nil {
		return "", &web.Problem{Code: http.StatusBadRequest, Title: "This page cannot be on a board.", Text: err.Error() + "."}
	}
	own := q.Boards()
	at := slices.IndexFunc(own, func(b session.Board) bool { return b.Name == name })
	if at < 0 {
		own, at = append(own, session.Board{Name: name}), len(own)
	}
	if len(own[at].Filters) == maxFilters {
		return "", &web.Problem{Code: http.StatusConflict, Title: "This board is full.", Text: fmt.Sprintf("A board has at most %d filters.", maxFilters)}
	}
	own[at].Filters = append(own[at].Filters, session.Filter{Title: title, Address: address.String()})
	return "/myboards/" + url.PathEscape(name), q.KeepBoards(own)
}

// remove takes a filter off an own board, or the board away.
func (p *pages) remove(q *web.Request) (string, error) {
	own := q.Boards()
	at, err := find(own, q.PathValue("name"))
	if err != nil {
		return "", err
	}
	next := "/myboards/" + url.PathEscape(own[at].Name)
	if text := q.PostFormValue("filter"); text != "" {
		i, err := strconv.Atoi(text)
		if err != nil || i < 0 || i >= len(own[at].Filters) {
			return "", &web.Problem{Code: http.StatusNotFound, Title: "This board has no such filter.", Text: "It may be gone already."}
		}
		own[at].Filters = slices.Delete(own[at].Filters, i, i+1)
	}
	if q.PostFormValue("filter") == "" || len(own[at].Filters) == 0 {
		own, next = slices.Delete(own, at, at+1), "/boards"
	}
	return next, q.KeepBoards(own)
}

// share makes a ConfigMap of an own board.
func (p *pages) share(q *web.Request) (string, error) {
	own := q.Boards()
	at, err := find(own, q.PathValue("name"))
	if err != nil {
		return "", err
	}
	namespace, reach := strings.TrimSpace(q.PostFormValue("namespace")), ofTeam
	if errs := validation.IsDNS1123Label(namespace); len(errs) > 0 {
		return "", &web.Problem{Code: http.StatusBadRequest, Title: "That is not a namespace.", Text: strings.Join(errs, "; ") + "."}
	}
	if q.PostFormValue("cluster") != "" {
		reach = ofCluster
	}
	b := ownBoard(&own[at])
	c := b.configMap(namespace, reach)
	err = q.Viewer.Create(q.Context(), c)
	if apierrors.IsAlreadyExists(err) {
		return "", &web.Problem{
			Code: http.StatusConflict, Title: "There is a ConfigMap " + c.Name + " in " + namespace + " already.", Remedy: "Give the board another name.",
		}
	}
	if err != nil {
		return "", fmt.Errorf("make board: %w", err)
	}
	return "/boards/" + url.PathEscape(c.Namespace) + "/" + url.PathEscape(c.Name), nil
}
