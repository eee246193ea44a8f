// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/scanyard/scanyard/console/assets"
	"github.com/scanyard/scanyard/console/internal/charts"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/session"
)

//go:embed layout.html problem.html login.html
var files embed.FS

// Options are what an App stands on.
type Options struct {
	Sessions *session.Keeper
	Guard    *session.Guard
	// As is the Viewer of a session.
	As func(*session.Session) (*cluster.Viewer, error)
	// Code opens sessions of the machine's own user; nil where people sign in.
	Code *session.Code
	// Check says who a token belongs to; nil where nobody signs in.
	Check func(ctx context.Context, token string) (user string, err error)
	// Tokens lets people sign in with a token of theirs.
	Tokens bool
	// Provider signs people in elsewhere; nil where there is none.
	Provider Provider
	// Proxy says who a request is of where a proxy has signed people in; nil where there is none.
	Proxy   func(*http.Request) (*session.Identity, error)
	Version string
	Now     func() time.Time
	// Failed is told of errors that no viewer has caused.
	Failed func(r *http.Request, err error)
	// SignedIn is told of who has come in, or has not, and how: code, token or provider. Nil tells nobody.
	SignedIn func(way string, ok bool)
	// Live is told when a live part begins, and returns what is called at its end. Nil tells nobody.
	Live func() (done func())
}

// Provider signs people in on pages of its own.
type Provider interface {
	// Begin is the page of the provider where an attempt goes on.
	Begin(ctx context.Context, a *session.Attempt) (string, error)
	// Finish is the token that a code of the provider stands for, and when it ends.
	Finish(ctx context.Context, a *session.Attempt, code string) (token string, ends time.Time, err error)
}

// App serves pages.
type App struct {
	Options

	mux     *http.ServeMux
	assets  *assets.Assets
	base    *template.Template
	problem *template.Template
	login   *template.Template
	bounds  *bounds
}

// New makes an App without pages.
func New(o Options) (*App, error) {
	if o.SignedIn == nil {
		o.SignedIn = func(string, bool) {}
	}
	a := &App{Options: o, mux: http.NewServeMux(), bounds: newBounds(o.Now)}
	var err error
	if a.assets, err = assets.Load(); err != nil {
		return nil, err
	}
	if a.base, err = template.New("").Funcs(a.functions()).ParseFS(files, "layout.html"); err != nil {
		return nil, fmt.Errorf("read layout: %w", err)
	}
	if a.base, err = a.base.ParseFS(charts.Files, "charts.html"); err != nil {
		return nil, fmt.Errorf("read charts: %w", err)
	}
	if err := a.Templates(files, map[string]**template.Template{"problem.html": &a.problem, "login.html": &a.login}); err != nil {
		return nil, err
	}
	a.mux.Handle("GET "+assets.Prefix, a.assets)
	a.mux.HandleFunc("GET /login", a.showLogin)
	a.mux.HandleFunc("POST /login", a.signIn)
	a.mux.HandleFunc("GET /login/provider", a.beginSignIn)
	a.mux.HandleFunc("GET /login/callback", a.endSignIn)
	a.Action("POST /logout", a.signOut)
	a.Action("POST /scope", a.chooseScope)
	a.Action("POST /theme", a.chooseTheme)
	a.Page("GET /", func(*Request) (*View, error) {
		return nil, &Problem{http.StatusNotFound, "There is no such page.", "", ""}
	})
	return a, nil
}

// Template reads the template of a page. It defines "content".
func (a *App) Template(from embed.FS, names ...string) (*template.Template, error) {
	t, err := a.base.Clone()
	if err != nil {
		return nil, fmt.Errorf("copy layout: %w", err)
	}
	if t, err = t.ParseFS(from, names...); err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	return t, nil
}

// Templates reads the templates of several pages: for each its file, beside those that all of them share.
func (a *App) Templates(from embed.FS, pages map[string]**template.Template, shared ...string) error {
	for name, t := range pages {
		parsed, err := a.Template(from, append([]string{name}, shared...)...)
		if err != nil {
			return err
		}
		*t = parsed
	}
	return nil
}

// maxBody bounds what a browser may send.
const maxBody = 1 << 20

// policy lets a page load what the console serves, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP serves a page.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "private, no-store")
	if a.Sessions.Secure() {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	a.Guard.Wrap(a.mux).ServeHTTP(w, r)
}

// View is what a page shows.
type View struct {
	// Title names the page, Section the entry of the rail that it belongs to.
	Title, Section string
	Template       *template.Template
	Data           any
	// Notes are what could not be read.
	Notes []string
	// Code is that of the answer; 0 is 200, and 422 for a form that is shown again.
	Code int
}

// Problem is an error that is shown to the viewer.
type Problem struct { //nolint:errname // it is what a page shows, and an error only on the way there
	Code                int
	Title, Text, Remedy string
}

func (p *Problem) Error() string { return p.Title + " " + p.Text }

// Section is an entry of the rail.
type Section struct {
	Name, Path string
	Here       bool
}

var sections = []Section{
	{Name: "Overview", Path: "/"},
	{Name: "Findings", Path: "/findings"},
	{Name: "Scans", Path: "/scans"},
	{Name: "Schedules", Path: "/schedules"},
	{Name: "Images", Path: "/images"},
	{Name: "Policy reports", Path: "/policyreports"},
	{Name: "Exceptions", Path: "/exceptions"},
	{Name: "Teams", Path: "/teams"},
	{Name: "Boards", Path: "/boards"},
}

// frame is what the template of the frame gets.
type frame struct {
	*View

	Bare               bool
	Theme              session.Theme
	User, Version      string
	CSRF, Back, Query  string
	Scope              string
	Chosen, Namespaces []string
	// Named are the namespaces that the address names: forms that filter keep them.
	Named    []string
	Sections []Section
	SignedIn bool
}

// Page registers a page.
func (a *App) Page(pattern string, show func(*Request) (*View, error)) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q, err := a.request(w, r)
		if err != nil {
			a.fail(w, r, q, err)
			return
		}
		view, err := show(q)
		if err != nil {
			a.fail(w, r, q, err)
			return
		}
		if err := a.render(w, q, http.StatusOK, view); err != nil {
			a.Failed(r, err)
		}
	})
}

// Stream registers what writes its answer itself, such as an export.
func (a *App) Stream(pattern string, write func(http.ResponseWriter, *Request) error) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q, err := a.request(w, r)
		if err == nil {
			err = write(w, q)
		}
		if err != nil {
			a.fail(w, r, q, err)
		}
	})
}

// Action registers a change. It returns the page to go on with.
func (a *App) Action(pattern string, change func(*Request) (string, error)) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q, err := a.request(w, r)
		if err == nil && !q.Session.Owns(r.PostFormValue("csrf")) {
			err = errForeignForm
		}
		next := ""
		if err == nil {
			next, err = change(q)
		}
		if err != nil {
			a.fail(w, r, q, err)
			return
		}
		http.Redirect(w, r, own(next), http.StatusSeeOther)
	})
}

// Form registers a change whose form is shown again where something in it is wrong: then it returns the page with the form.
func (a *App) Form(pattern string, change func(*Request) (next string, again *View, err error)) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q, err := a.request(w, r)
		if err == nil && !q.Session.Owns(r.PostFormValue("csrf")) {
			err = errForeignForm
		}
		next, again := "", (*View)(nil)
		if err == nil {
			next, again, err = change(q)
		}
		switch {
		case err != nil:
			a.fail(w, r, q, err)
		case again != nil:
			if err := a.render(w, q, cmp.Or(again.Code, http.StatusUnprocessableEntity), again); err != nil {
				a.Failed(r, err)
			}
		default:
			http.Redirect(w, r, own(next), http.StatusSeeOther)
		}
	})
}

var errForeignForm = &Problem{http.StatusForbidden, "This form is not of your session.", "Load the page anew and try again.", ""}

// own is an address of the console; what leads elsewhere becomes the overview.
func own(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

func (a *App) render(w http.ResponseWriter, q *Request, code int, v *View) error {
	f := frame{View: v, Bare: true, Version: a.Version}
	if q != nil && q.Viewer != nil {
		f.Bare = false
		f.Theme, f.User, f.CSRF, f.SignedIn = q.Session.Theme, q.Session.User, q.Session.CSRF, a.Code == nil && a.Proxy == nil
		f.Back, f.Query, f.Scope, f.Chosen = q.page(), q.URL.Query().Get("q"), q.Scope.String(), q.Session.Namespaces
		f.Named = q.URL.Query()["ns"]
		f.Sections = slices.Clone(sections)
		for i := range f.Sections {
			f.Sections[i].Here = f.Sections[i].Name == v.Section
		}
	}
	var page bytes.Buffer // a template that fails half way must not leave half a page
	if err := v.Template.ExecuteTemplate(&page, "frame", f); err != nil {
		http.Error(w, "This page cannot be shown.", http.StatusInternalServerError)
		return fmt.Errorf("render %s: %w", v.Title, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(bytes.Map(shown, page.Bytes())) // the browser is gone, if it fails
	return nil
}

// shown puts a mark in the place of characters that have no shape, and of those that turn the direction of text around: with
// them a text could pretend to be another.
func shown(r rune) rune {
	switch {
	case r == '\n', r == '\t':
		return r
	case r < ' ', r >= 0x7f && r <= 0x9f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return '\uFFFD'
	}
	return r
}

func (a *App) fail(w http.ResponseWriter, r *http.Request, q *Request, err error) {
	if errors.Is(err, cluster.ErrSignIn) {
		next := ""
		if r.Method == http.MethodGet && a.Code == nil && r.URL.Path != "/" {
			next = r.URL.RequestURI()
		}
		http.Redirect(w, r, Link("/login", "next", next), http.StatusSeeOther)
		return
	}
	if errors.Is(err, context.Canceled) {
		return // the browser is gone
	}
	p := problemOf(err)
	if p.Code >= http.StatusInternalServerError {
		a.Failed(r, err)
	}
	if err := a.render(w, q, p.Code, &View{Title: p.Title, Template: a.problem, Data: p}); err != nil {
		a.Failed(r, err)
	}
}

// problemOf says an error to the viewer.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	text := err.Error()
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		text = status.ErrStatus.Message
	}
	switch {
	case errors.Is(err, cluster.ErrAbsent):
		return &Problem{http.StatusNotFound, "A part is not installed.", text, "Who runs the cluster can install its chart."}
	case apierrors.IsForbidden(err):
		return &Problem{http.StatusForbidden, "You lack a right.", text, "Who runs the cluster can give the right by a Role and a RoleBinding."}
	case apierrors.IsUnauthorized(err):
		return &Problem{http.StatusUnauthorized, "The API server does not know you any more.", text, "Sign out, and in again."}
	case apierrors.IsNotFound(err):
		return &Problem{http.StatusNotFound, "This is not there any more.", text, ""}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return &Problem{http.StatusUnprocessableEntity, "The API server refuses this.", text, "Go back, correct it, and try again."}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return &Problem{http.StatusConflict, "Somebody else was faster.", text, "Load the page anew and try again."}
	case apierrors.IsTooManyRequests(err):
		return &Problem{http.StatusTooManyRequests, "Too many questions at once.", text, "Try again in a moment."}
	case errors.Is(err, context.DeadlineExceeded):
		return &Problem{http.StatusGatewayTimeout, "The cluster takes too long to answer.", text, "Narrow the question, or try again."}
	}
	return &Problem{http.StatusBadGateway, "The cluster does not answer as it should.", text, "Try again; scanyard doctor checks the installation."}
}

// bounds keep one session from taking all.
type bounds struct {
	now func() time.Time

	mu   sync.Mutex
	seen map[string]*bound
}

type bound struct {
	left float64
	at   time.Time
	live int
}

const (
	perSecond = 20
	atOnce    = 60
	maxLive   = 6
	maxBounds = 4096
)

func newBounds(now func() time.Time) *bounds { return &bounds{now: now, seen: map[string]*bound{}} }

func (b *bounds) of(key string) *bound {
	one := b.seen[key]
	if one == nil {
		if len(b.seen) >= maxBounds {
			for other, o := range b.seen {
				if o.live == 0 {
					delete(b.seen, other)
				}
			}
		}
		one = &bound{left: atOnce, at: b.now()}
		b.seen[key] = one
	}
	return one
}

// take says whether a session may make one more request now.
func (b *bounds) take(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, now := b.of(key), b.now()
	one.left = min(atOnce, one.left+perSecond*now.Sub(one.at).Seconds())
	one.at = now
	if one.left < 1 {
		return false
	}
	one.left--
	return true
}

// open says whether a session may have one more live part; done ends it.
func (b *bounds) open(key string) (done func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.of(key)
	if one.live >= maxLive {
		return nil, false
	}
	one.live++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		one.live--
	}, true
}
