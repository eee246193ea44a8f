// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/session"
)

// Request is a request of somebody who is known.
type Request struct {
	*http.Request

	Session *session.Session
	Viewer  *cluster.Viewer
	Scope   cluster.Scope
	Now     time.Time

	bounds *bounds
	writer http.ResponseWriter
	keeper *session.Keeper
	live   func() (done func())
}

// session is that of a request. Where a proxy signs people in, the cookie keeps what its viewer has chosen, and the proxy says with each
// request who that is.
func (a *App) session(w http.ResponseWriter, r *http.Request) (*session.Session, error) {
	s, ok := a.Sessions.Read(r)
	if a.Proxy == nil {
		if !ok {
			return nil, cluster.ErrSignIn
		}
		return s, nil
	}
	who, err := a.Proxy(r)
	if err != nil {
		return nil, &Problem{http.StatusForbidden, "Nobody has signed you in.", err.Error() + ".", "Open the address of the proxy before this console."}
	}
	if !ok || s.User != who.Name || s.Token != "" {
		s = session.New(who.Name, "", a.Now())
		if err := a.Sessions.Write(w, s); err != nil {
			return nil, err
		}
	}
	s.Identity = who
	return s, nil
}

// request says who asks and where they look.
func (a *App) request(w http.ResponseWriter, r *http.Request) (*Request, error) {
	s, err := a.session(w, r)
	if err != nil {
		return nil, err
	}
	if !a.bounds.take(s.CSRF) {
		return nil, &Problem{http.StatusTooManyRequests, "Too many requests.", "This session asks faster than anybody reads.", "Try again in a moment."}
	}
	v, err := a.As(s)
	if err != nil {
		return nil, err
	}
	q := &Request{Request: r, Session: s, Viewer: v, Now: a.Now(), bounds: a.bounds, writer: w, keeper: a.Sessions, live: a.Live}
	chosen := s.Namespaces
	if named := r.URL.Query()["ns"]; len(named) > 0 {
		if chosen, err = namespacesOf(named); err != nil {
			return nil, err
		}
	}
	if q.Scope, err = v.ScopeOf(r.Context(), chosen); err != nil {
		return q, err
	}
	return q, nil
}

// maxChosen is how many namespaces somebody may choose by name.
const maxChosen = 100

func namespacesOf(texts []string) ([]string, error) {
	var names []string
	for _, text := range texts {
		for name := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' || r == '\t' }) {
			if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
				return nil, &Problem{http.StatusBadRequest, "That is not a namespace.", fmt.Sprintf("%q: %s.", name, strings.Join(errs, "; ")), ""}
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > maxChosen {
		text := fmt.Sprintf("%d namespaces can be chosen by name.", maxChosen)
		return nil, &Problem{http.StatusBadRequest, "Too many namespaces.", text, "Choose none to see all that you may list."}
	}
	return names, nil
}

// With is the address of this page with one parameter changed; an empty value takes it away. Where the list was is forgotten.
func (q *Request) With(name, value string) string {
	values := q.URL.Query()
	values.Del("after")
	values.Del(name)
	if value != "" {
		values.Set(name, value)
	}
	if len(values) == 0 {
		return q.URL.Path
	}
	return q.URL.Path + "?" + values.Encode()
}

// page is the address of the page that is shown: a form that is shown again was loaded from where it is sent to.
func (q *Request) page() string {
	if q.Method == http.MethodPost {
		return q.URL.Path
	}
	return q.URL.RequestURI()
}

// MayChange says whether the viewer may do something to Scans or ScheduledScans of a namespace.
func (q *Request) MayChange(verb, resource, namespace string) (bool, error) {
	return q.May(verb, executionv1.SchemeGroupVersion.Group, resource, namespace)
}

// May says whether the viewer may do something in a namespace, or in the cluster.
func (q *Request) May(verb, group, resource, namespace string) (bool, error) {
	return q.Viewer.May(q.Context(), cluster.Right{Verb: verb, Group: group, Resource: resource, Namespace: namespace})
}

// Rights says of some verbs whether the viewer has them, and names those that the viewer lacks.
func (q *Request) Rights(group, resource, namespace string, verbs ...string) (allowed map[string]bool, denied string, err error) {
	allowed = map[string]bool{}
	var lacking []string
	for _, verb := range verbs {
		if allowed[verb], err = q.May(verb, group, resource, namespace); err != nil {
			return nil, "", err
		}
		if !allowed[verb] {
			lacking = append(lacking, verb)
		}
	}
	if len(lacking) > 0 {
		denied = "You may not " + cluster.Right{Verb: strings.Join(lacking, ", "), Group: group, Resource: resource, Namespace: namespace}.String() + "."
	}
	return allowed, denied, nil
}

// Notes are what the rights that a viewer lacks keep from a page, and an error that the page can be shown with.
func Notes(what string, denials []cluster.Denial, err error) (notes []string) {
	for _, d := range denials {
		notes = append(notes, d.String())
	}
	if err != nil && !errors.Is(err, cluster.ErrAbsent) && !errors.Is(err, context.Canceled) {
		notes = append(notes, what+" cannot be read: "+err.Error())
	}
	return notes
}

// Part is a page of a list that is whole in memory.
type Part struct {
	From, To, Total int
	// Next and First are addresses; empty where there is no such page.
	Next, First string
}

// PerPage is how many rows a page of a list has.
const PerPage = 50

// PartOf is the part of a list of n that the request asks for.
func (q *Request) PartOf(n int) (Part, error) {
	from := 0
	if after := q.URL.Query().Get("after"); after != "" {
		var err error
		if from, err = strconv.Atoi(after); err != nil || from < 0 {
			return Part{}, &Problem{http.StatusBadRequest, "There is no such page of the list.", "", "Begin at its start."}
		}
	}
	p := Part{From: min(from, n), Total: n}
	p.To = min(p.From+PerPage, n)
	if p.To < n {
		p.Next = q.With("after", strconv.Itoa(p.To))
	}
	if p.From > 0 {
		p.First = q.With("", "")
	}
	return p, nil
}

// Link is an address with parameters, given in pairs. Empty ones are left out.
func Link(path string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Add(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

func (a *App) chooseScope(q *Request) (string, error) {
	names, err := namespacesOf(append(q.PostForm["namespace"], q.PostFormValue("namespaces")))
	if err != nil {
		return "", err
	}
	q.Session.Namespaces = names
	back, err := url.Parse(own(q.PostFormValue("back")))
	if err != nil {
		return "/", q.keep()
	}
	values := back.Query()
	values.Del("ns")
	values.Del("after")
	back.RawQuery = values.Encode()
	return back.String(), q.keep()
}

func (a *App) chooseTheme(q *Request) (string, error) {
	switch theme := session.Theme(q.PostFormValue("theme")); theme {
	case session.Light, session.Dark, session.System:
		q.Session.Theme = theme
	default:
		return "", &Problem{http.StatusBadRequest, "There is no such theme.", "", ""}
	}
	return q.PostFormValue("back"), q.keep()
}

// Boards are the viewer's own boards.
func (q *Request) Boards() []session.Board { return q.keeper.Boards(q.Request, q.Session) }

// KeepBoards gives the viewer's own boards to the browser.
func (q *Request) KeepBoards(boards []session.Board) error {
	err := q.keeper.WriteBoards(q.writer, q.Session, boards)
	if errors.Is(err, session.ErrTooLarge) {
		return &Problem{
			http.StatusBadRequest, "The browser keeps no more boards of your own.", "They are larger than a cookie may be.",
			"Keep one in a namespace, or take some away.",
		}
	}
	return err
}

func (q *Request) keep() error {
	err := q.keeper.Write(q.writer, q.Session)
	if errors.Is(err, session.ErrTooLarge) {
		return &Problem{http.StatusBadRequest, "Too many namespaces.", err.Error() + ".", ""}
	}
	return err
}
