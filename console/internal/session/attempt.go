// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"time"
)

// attemptLifetime is how long somebody may take to sign in at a provider.
const attemptLifetime = 10 * time.Minute

// Attempt is a sign-in at a provider that has begun. The browser carries it, sealed, so that any console can end it.
type Attempt struct {
	// State comes back from the provider, Nonce stands in its token, Verifier proves that who ends the attempt has begun it.
	State, Nonce, Verifier string
	// Next is the page to go on with.
	Next string
	Ends time.Time
}

// NewAttempt begins one.
func NewAttempt(next string, now time.Time) *Attempt {
	return &Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), Next: next, Ends: now.Add(attemptLifetime)}
}

// Is says whether a state is that of the attempt.
func (a *Attempt) Is(state string) bool {
	return a.State != "" && subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) == 1
}

func (k *Keeper) attempt() string { return k.name + "-signin" }

// WriteAttempt gives an attempt to the browser, in the place of the session that is over.
func (k *Keeper) WriteAttempt(w http.ResponseWriter, a *Attempt) error {
	sealed, err := k.seal(k.attempt(), a)
	if err != nil {
		return fmt.Errorf("write sign-in: %w", err)
	}
	if len(sealed) > maxAttempt {
		return fmt.Errorf("write sign-in: %w", ErrTooLarge)
	}
	k.Forget(w)
	http.SetCookie(w, k.cookie(k.attempt(), sealed, int(attemptLifetime/time.Second)))
	return nil
}

// TakeAttempt takes the attempt from the browser. False is none, or one that has run out.
func (k *Keeper) TakeAttempt(w http.ResponseWriter, r *http.Request) (*Attempt, bool) {
	cookie, err := r.Cookie(k.attempt())
	if err != nil {
		return nil, false
	}
	http.SetCookie(w, k.cookie(k.attempt(), "", -1))
	a := &Attempt{}
	if !k.open(k.attempt(), cookie.Value, a) || !k.now().Before(a.Ends) {
		return nil, false
	}
	return a, true
}
