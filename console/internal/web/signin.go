// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/session"
)

// loginData is what the page for signing in shows.
type loginData struct {
	Text, Next            string
	Own, Tokens, Provider bool
}

func (a *App) showLogin(w http.ResponseWriter, r *http.Request) {
	if code := r.URL.Query().Get("code"); code != "" && a.Code != nil {
		if ok := a.Code.Redeem(code); ok {
			a.enter(w, r, "code", session.New("", "", a.Now()), "/")
			return
		}
		a.SignedIn("code", false)
	}
	a.askToSignIn(w, r, http.StatusOK, "", r.URL.Query().Get("next"))
}

func (a *App) askToSignIn(w http.ResponseWriter, r *http.Request, code int, text, next string) {
	data := loginData{Text: text, Own: a.Code != nil, Tokens: a.Tokens, Provider: a.Provider != nil}
	if next = own(next); next != "/" {
		data.Next = next
	}
	if err := a.render(w, nil, code, &View{Title: "Sign in", Template: a.login, Data: data}); err != nil {
		a.Failed(r, err)
	}
}

// enter gives a session to the browser, and goes on.
func (a *App) enter(w http.ResponseWriter, r *http.Request, way string, s *session.Session, next string) {
	if err := a.Sessions.Write(w, s); err != nil {
		a.SignedIn(way, false)
		const tooLong = "This token is too long for a session: it names more groups than cookies hold. Sign in with one that names fewer."
		a.askToSignIn(w, r, http.StatusBadRequest, tooLong, next)
		return
	}
	a.SignedIn(way, true)
	http.Redirect(w, r, own(next), http.StatusSeeOther) //nolint:gosec // own lets addresses of the console through only
}

// mayTry says whether somebody at an address may try to sign in once more now: each try is a question to the API server or the provider.
func (a *App) mayTry(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && a.bounds.take("sign-in from "+host)
}

const (
	// checkPatience is how long signing in may take.
	checkPatience = 10 * time.Second
	tooManyTries  = "Too many people sign in at once. Try again in a moment."
)

// signIn takes a token.
func (a *App) signIn(w http.ResponseWriter, r *http.Request) {
	next := r.PostFormValue("next")
	switch {
	case !a.Tokens || a.Check == nil:
		a.askToSignIn(w, r, http.StatusForbidden, "This console takes no tokens.", next)
		return
	case !a.mayTry(r):
		a.askToSignIn(w, r, http.StatusTooManyRequests, tooManyTries, next)
		return
	}
	token := strings.TrimSpace(r.PostFormValue("token"))
	s, ok := a.known(w, r, "token", token, next)
	if !ok {
		return
	}
	s.EndBy(endOf(token))
	a.enter(w, r, "token", s, next)
}

// known is a session of a token that the API server takes.
func (a *App) known(w http.ResponseWriter, r *http.Request, way, token, next string) (*session.Session, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), checkPatience)
	defer cancel()
	user, err := a.Check(ctx, token)
	if err != nil {
		a.SignedIn(way, false)
		if !cluster.IsRefused(err) {
			a.Failed(r, err)
			a.askToSignIn(w, r, http.StatusBadGateway, "The API server does not answer. Try again in a moment.", next)
			return nil, false
		}
		a.askToSignIn(w, r, http.StatusForbidden, "The API server does not take this token.", next)
		return nil, false
	}
	return session.New(user, token, a.Now()), true
}

// beginSignIn leads to the provider.
func (a *App) beginSignIn(w http.ResponseWriter, r *http.Request) {
	next := own(r.URL.Query().Get("next"))
	switch {
	case a.Provider == nil:
		a.askToSignIn(w, r, http.StatusNotFound, "This console has no provider to sign in at.", next)
		return
	case !a.mayTry(r):
		a.askToSignIn(w, r, http.StatusTooManyRequests, tooManyTries, next)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), checkPatience)
	defer cancel()
	attempt := session.NewAttempt(next, a.Now())
	page, err := a.Provider.Begin(ctx, attempt)
	if err != nil {
		a.notSignedIn(w, r, err, next)
		return
	}
	if err := a.Sessions.WriteAttempt(w, attempt); err != nil {
		attempt.Next = "/" // an address that does not fit is forgotten
		err = a.Sessions.WriteAttempt(w, attempt)
		if err != nil {
			a.notSignedIn(w, r, err, "/")
			return
		}
	}
	http.Redirect(w, r, page, http.StatusSeeOther) //nolint:gosec // the page is the provider's, by its own word
}

// endSignIn is where the provider leads back to.
func (a *App) endSignIn(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	attempt, ok := a.Sessions.TakeAttempt(w, r)
	switch {
	case a.Provider == nil || !ok || !attempt.Is(query.Get("state")):
		a.SignedIn("provider", false)
		a.askToSignIn(w, r, http.StatusBadRequest, "This sign-in was not begun here, or took too long. Begin again.", "")
		return
	case !a.mayTry(r):
		a.askToSignIn(w, r, http.StatusTooManyRequests, tooManyTries, attempt.Next)
		return
	case query.Get("code") == "":
		a.SignedIn("provider", false)
		a.askToSignIn(w, r, http.StatusForbidden, "The provider has not signed you in.", attempt.Next)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), checkPatience)
	defer cancel()
	token, ends, err := a.Provider.Finish(ctx, attempt, query.Get("code"))
	if err != nil {
		a.notSignedIn(w, r, err, attempt.Next)
		return
	}
	s, ok := a.known(w, r, "provider", token, attempt.Next)
	if !ok {
		return
	}
	s.EndBy(ends)
	a.enter(w, r, "provider", s, attempt.Next)
}

func (a *App) notSignedIn(w http.ResponseWriter, r *http.Request, err error, next string) {
	a.SignedIn("provider", false)
	a.Failed(r, err)
	a.askToSignIn(w, r, http.StatusBadGateway, "Signing in at the provider has failed; who runs the console finds the reason in its log.", next)
}

func (a *App) signOut(q *Request) (string, error) {
	a.Sessions.End(q.writer, q.Session)
	return "/login", nil
}
