// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/scanyard/scanyard/registry/internal/credentials"
	"github.com/scanyard/scanyard/registry/internal/egress"
)

const (
	// tokens are fetched again that long before they end, or at half of their time where that is later.
	renewBefore = 5 * time.Minute
	// defaultLife is that of a token whose service does not say.
	defaultLife  = 60 * time.Second
	maxTokenBody = 1 << 20
	clientID     = "scanyard-registry"
)

// authorizer knows for each scope who is asking.
type authorizer struct {
	transports  *transports
	credentials credentials.Set
	plainHTTP   bool
	now         func() time.Time
	mutex       sync.Mutex
	scopes      map[string]*access
}

// access is what is known of a scope. Its mutex is held while a token is fetched: the others of the scope wait for the same one.
type access struct {
	mutex sync.Mutex
	scope string
	// list are the credentials in their order; without any the only one is anonymous.
	list  []credentials.Credential
	index int
	// header is the Authorization that is sent, proved that it was good once.
	header string
	proved bool
	// renew is when a token is fetched again, ends when its time is over; zero: what is sent is not a token of a realm.
	renew, ends time.Time
	challenge   *challenge
	generation  int
	// refused: all credentials were tried.
	refused error
}

// scopeOf gives the scope of a repository; "" is the catalogue.
func scopeOf(repository string) string {
	if repository == "" {
		return "registry:catalog:*"
	}
	return "repository:" + repository + ":pull"
}

func (a *authorizer) access(repository string) *access {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	scope := scopeOf(repository)
	if known := a.scopes[scope]; known != nil {
		return known
	}
	made := &access{scope: scope, list: a.credentials.Match(repository)}
	if len(made.list) == 0 {
		made.list = []credentials.Credential{{}}
	}
	a.scopes[scope] = made
	return made
}

// current gives the Authorization to send, fetched anew where its end is near. The generation is for challenged.
func (a *authorizer) current(ctx context.Context, s *access) (header string, generation int, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.refused != nil {
		return "", 0, s.refused
	}
	if now := a.now(); s.challenge != nil && !s.renew.IsZero() && !now.Before(s.renew) {
		// A realm that does not answer does no harm as long as the token is good.
		if err := a.obtain(ctx, s, *s.challenge); err != nil && (!isPassing(ctx, err) || !now.Before(s.ends)) {
			return "", 0, err
		}
	}
	return s.header, s.generation, nil
}

// worked notes that a request was not answered by 401.
func (s *access) worked(generation int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.generation == generation {
		s.proved = true
	}
}

// challenged takes a 401 to a request of a generation. Without an error there is another Authorization to try.
func (a *authorizer) challenged(ctx context.Context, s *access, generation int, headers []string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case s.refused != nil:
		return s.refused
	case s.generation != generation:
		// Somebody else has tried another one meanwhile.
		return nil
	case s.header != "" && (!s.proved || s.renew.IsZero()):
		// A token that was good may be too old; a password that was good is another one now.
		s.index++
	}
	chosen, found := choose(parseChallenges(headers))
	if !found {
		s.refused = &Error{Reason: Unauthorized, Status: http.StatusUnauthorized, Detail: "no challenge of Basic or Bearer"}
		return s.refused
	}
	s.challenge = &chosen
	return a.obtain(ctx, s, chosen)
}

// choose prefers tokens.
func choose(list []challenge) (challenge, bool) {
	for _, scheme := range []string{"bearer", "basic"} {
		for _, c := range list {
			if c.scheme == scheme {
				return c, true
			}
		}
	}
	return challenge{}, false
}

// obtain makes an Authorization of the first credential, from the one at hand on, that gives one.
func (a *authorizer) obtain(ctx context.Context, s *access, c challenge) error {
	for ; s.index < len(s.list); s.index++ {
		header, life, err := a.authorization(ctx, s, c, s.list[s.index])
		if err != nil {
			refused, ok := errors.AsType[*Error](err)
			if ok && refused.Detail == ForeignRealm {
				s.refused = err
			}
			return err
		}
		if header == "" {
			continue
		}
		s.header, s.proved, s.renew, s.ends = header, false, time.Time{}, time.Time{}
		if life > 0 {
			s.ends = a.now().Add(life)
			s.renew = s.ends.Add(-min(renewBefore, life/2))
		}
		s.generation++
		return nil
	}
	s.refused = &Error{Reason: Unauthorized, Status: http.StatusUnauthorized}
	return s.refused
}

// authorization gives what to send; "": this credential is of no use.
func (a *authorizer) authorization(ctx context.Context, s *access, c challenge, credential credentials.Credential) (string, time.Duration, error) {
	switch {
	case credential.RegistryToken != "":
		return "Bearer " + credential.RegistryToken, 0, nil
	case c.scheme == "bearer":
		return a.token(ctx, s, c, credential)
	case credential.Username != "":
		return basic(credential), 0, nil
	}
	return "", 0, nil
}

func basic(c credentials.Credential) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password))
}

// token asks the realm of a challenge.
func (a *authorizer) token(ctx context.Context, s *access, c challenge, credential credentials.Credential) (string, time.Duration, error) {
	realm, err := a.realm(c.parameters["realm"], credential != credentials.Credential{})
	if err != nil {
		return "", 0, err
	}
	e := exchange{method: http.MethodGet, url: realm, header: http.Header{}, limit: maxTokenBody}
	values := url.Values{"scope": {s.scope}}
	if service := c.parameters["service"]; service != "" {
		values.Set("service", service)
	}
	if credential.IdentityToken != "" {
		values.Set("grant_type", "refresh_token")
		values.Set("refresh_token", credential.IdentityToken)
		values.Set("client_id", clientID)
		e.method, e.body = http.MethodPost, values.Encode()
		e.header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else {
		query := realm.Query()
		for name := range values {
			query.Set(name, values.Get(name))
		}
		realm.RawQuery = query.Encode()
		if credential.Username != "" {
			e.header.Set("Authorization", basic(credential))
		}
	}
	if realm.Hostname() != a.transports.base.Hostname() {
		// The registry has named this host, nobody else.
		ctx = egress.Hop(ctx, a.transports.base.Hostname())
	}
	got, err := a.transports.do(ctx, e)
	if err != nil {
		return "", 0, classify(fmt.Errorf("ask for a token: %w", err))
	}
	switch got.status {
	case http.StatusOK:
		return readToken(got.body)
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest:
		return "", 0, nil
	}
	refusal := refused(got)
	if refusal.Reason != RateLimited {
		refusal.Reason = Unreachable
	}
	refusal.Detail = "the token service does not answer"
	return "", 0, refusal
}

// realm decides whether a realm is asked. secret: a credential would be shown to the realm.
func (a *authorizer) realm(text string, secret bool) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !a.plainHTTP) {
		return nil, &Error{Reason: Unauthorized, Status: http.StatusUnauthorized, Detail: "the realm is not an https address"}
	}
	if err := a.transports.rules.Host(u); err != nil {
		return nil, classify(err)
	}
	if secret && !credentials.Realm(a.transports.base.Hostname(), u.Hostname()) {
		return nil, &Error{Reason: Unauthorized, Status: http.StatusUnauthorized, Detail: ForeignRealm}
	}
	return u, nil
}

func readToken(body []byte) (string, time.Duration, error) {
	var token struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	if json.Unmarshal(body, &token) != nil {
		return "", 0, &Error{Reason: Unauthorized, Detail: "the token service gives no token"}
	}
	if token.Token == "" {
		token.Token = token.AccessToken
	}
	if token.Token == "" || strings.ContainsFunc(token.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", 0, &Error{Reason: Unauthorized, Detail: "the token service gives no token"}
	}
	life := defaultLife
	const longest = 24 * 60 * 60
	if token.ExpiresIn >= 1 {
		life = time.Duration(min(token.ExpiresIn, longest)) * time.Second
	}
	return "Bearer " + token.Token, life, nil
}
