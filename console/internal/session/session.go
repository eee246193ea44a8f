// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Lifetime is how long a session lasts.
const Lifetime = 12 * time.Hour

// maxCookie is what browsers keep in one cookie.
const maxCookie = 4 << 10

// Theme is which colours the viewer wants.
type Theme string

// The themes. System follows the setting of the system.
const (
	System Theme = ""
	Light  Theme = "light"
	Dark   Theme = "dark"
)

// Session is who looks, and what they have chosen.
type Session struct {
	// User is the name to show.
	User string `json:"user,omitempty"`
	// Token is the viewer's token for the API server; empty where the console has the viewer's own credentials.
	Token string `json:"token,omitempty"`
	// CSRF is what every change has to bring along.
	CSRF string `json:"csrf"`
	// Namespaces are those that the viewer has chosen by name.
	Namespaces []string `json:"namespaces,omitempty"`
	// Theme is which colours the viewer wants.
	Theme Theme `json:"theme,omitempty"`
	// Ends is when the session ends.
	Ends time.Time `json:"ends"`
}

// New makes a session of a viewer.
func New(user, token string, now time.Time) *Session {
	return &Session{User: user, Token: token, CSRF: rand.Text(), Ends: now.Add(Lifetime)}
}

// Owns says whether a form was made for this session.
func (s *Session) Owns(token string) bool {
	return s.CSRF != "" && subtle.ConstantTimeCompare([]byte(s.CSRF), []byte(token)) == 1
}

// Keeper seals sessions into cookies and opens them.
type Keeper struct {
	name   string
	seals  []cipher.AEAD
	now    func() time.Time
	secure bool
}

// KeySize is the number of bytes of a key.
const KeySize = 32

// NewKeeper makes a Keeper of cookies of a name. The first key seals, all keys open. Secure cookies are sent over TLS only.
func NewKeeper(name string, keys [][]byte, secure bool, now func() time.Time) (*Keeper, error) {
	if len(keys) == 0 {
		return nil, errors.New("sessions need a key")
	}
	k := &Keeper{name: name, now: now, secure: secure}
	for i, key := range keys {
		if len(key) != KeySize {
			return nil, fmt.Errorf("key %d of sessions has %d bytes, must have %d", i+1, len(key), KeySize)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("key %d of sessions: %w", i+1, err)
		}
		seal, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("key %d of sessions: %w", i+1, err)
		}
		k.seals = append(k.seals, seal)
	}
	return k, nil
}

// ErrTooLarge says that a browser would not keep the session.
var ErrTooLarge = errors.New("the session is larger than a cookie may be: choose fewer namespaces")

// Write gives the session to the browser.
func (k *Keeper) Write(w http.ResponseWriter, s *Session) error {
	plain, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	sealed := base64.RawURLEncoding.EncodeToString(k.seals[0].Seal(nil, nil, plain, []byte(k.name))) //nolint:gosec // the AEAD makes the nonce, and wants none
	if len(sealed)+len(k.name) > maxCookie {
		return ErrTooLarge
	}
	http.SetCookie(w, k.cookie(k.name, sealed, int(s.Ends.Sub(k.now())/time.Second)))
	return nil
}

// Clear takes the session from the browser.
func (k *Keeper) Clear(w http.ResponseWriter) { http.SetCookie(w, k.cookie(k.name, "", -1)) }

func (k *Keeper) cookie(name, value string, seconds int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // on the loopback address there is no TLS that Secure could ask for
		Name: name, Value: value, Path: "/", MaxAge: seconds,
		Secure: k.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

// Read opens the session of a request. False is no session, or one that has ended.
func (k *Keeper) Read(r *http.Request) (*Session, bool) {
	cookie, err := r.Cookie(k.name)
	if err != nil {
		return nil, false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return nil, false
	}
	for _, seal := range k.seals {
		plain, err := seal.Open(nil, nil, sealed, []byte(k.name))
		if err != nil {
			continue // sealed with another key
		}
		s := &Session{}
		if json.Unmarshal(plain, s) != nil || !k.now().Before(s.Ends) {
			return nil, false
		}
		return s, true
	}
	return nil, false
}
