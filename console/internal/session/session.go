// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Lifetime is how long a session lasts.
const Lifetime = 12 * time.Hour

// What cookies hold, in bytes. Browsers keep 4 KiB of each, with its name; what stands before a console often takes 8 KiB of all headers of a
// request, of which those of a browser need about one. All cookies together stay below 7 KiB.
const (
	// partSize is how much of a session one cookie holds, and maxSession how much all of them: two at the most.
	partSize   = 3800
	maxSession = 5000
	// maxBoards is how much somebody's own boards hold.
	maxBoards = 1700
	// maxAttempt is how much a sign-in at a provider holds, before which there is no session.
	maxAttempt = 1700
	maxParts   = (maxSession + partSize - 1) / partSize
)

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
	// Identity is who a proxy says the viewer is, with each request anew. No cookie keeps it.
	Identity *Identity `json:"-"`
}

// Identity is somebody whom a proxy has signed in.
type Identity struct {
	// Name is who the proxy says it is.
	Name string
	// User and Groups are those that the API server is asked as, and Extra what it writes down of them.
	User   string
	Groups []string
	Extra  map[string][]string
}

// New makes a session of a viewer.
func New(user, token string, now time.Time) *Session {
	return &Session{User: user, Token: token, CSRF: rand.Text(), Ends: now.Add(Lifetime)}
}

// EndBy lets the session end with the token that it has.
func (s *Session) EndBy(end time.Time) {
	if !end.IsZero() && end.Before(s.Ends) {
		s.Ends = end
	}
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
	ended  ended
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
var ErrTooLarge = errors.New("the session is larger than cookies may be: choose fewer namespaces")

// Write gives the session to the browser. The first cookie says how many there are: one of a larger session before is not looked at.
func (k *Keeper) Write(w http.ResponseWriter, s *Session) error {
	sealed, err := k.seal(k.name, s)
	if err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	if len(sealed) > maxSession {
		return ErrTooLarge
	}
	parts := (len(sealed) + partSize - 1) / partSize
	seconds := int(s.Ends.Sub(k.now()) / time.Second)
	for i := range parts {
		value := sealed[i*partSize : min((i+1)*partSize, len(sealed))]
		if i == 0 {
			value = strconv.Itoa(parts) + "." + value
		}
		http.SetCookie(w, k.cookie(k.part(i), value, seconds))
	}
	return nil
}

// Secure says whether cookies are sent over TLS only.
func (k *Keeper) Secure() bool { return k.secure }

// part is the name of a cookie of a session.
func (k *Keeper) part(i int) string {
	if i == 0 {
		return k.name
	}
	return k.name + "-" + strconv.Itoa(i+1)
}

// End takes the session from the browser, and takes it from nobody any more. A console elsewhere does not know of that: it is bounded by
// the session's time.
func (k *Keeper) End(w http.ResponseWriter, s *Session) {
	k.Forget(w)
	k.ended.add(s, k.now())
}

// Forget takes a session from the browser.
func (k *Keeper) Forget(w http.ResponseWriter) {
	for i := range maxParts {
		http.SetCookie(w, k.cookie(k.part(i), "", -1))
	}
}

func (k *Keeper) cookie(name, value string, seconds int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // on the loopback address there is no TLS that Secure could ask for
		Name: name, Value: value, Path: "/", MaxAge: seconds,
		Secure: k.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

// Read opens the session of a request. False is not a session, or one that has ended.
func (k *Keeper) Read(r *http.Request) (*Session, bool) {
	var sealed strings.Builder
	parts := 1
	for i := 0; i < parts; i++ {
		cookie, err := r.Cookie(k.part(i))
		if err != nil {
			return nil, false
		}
		value := cookie.Value
		if i == 0 {
			var count string
			count, value, _ = strings.Cut(value, ".")
			if parts, err = strconv.Atoi(count); err != nil || parts < 1 || parts > maxParts {
				return nil, false
			}
		}
		sealed.WriteString(value)
	}
	s := &Session{}
	if !k.open(k.name, sealed.String(), s) || !k.now().Before(s.Ends) || k.ended.has(s) {
		return nil, false
	}
	return s, true
}

// seal encrypts a value, made as short as it can be. What it is for is part of the seal: nothing else can be made of it.
func (k *Keeper) seal(purpose string, value any) (string, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	var short bytes.Buffer
	writer, err := flate.NewWriter(&short, flate.BestCompression)
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	if _, err := writer.Write(plain); err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	if err := writer.Close(); err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	sealed := k.seals[0].Seal(nil, nil, short.Bytes(), []byte(purpose)) //nolint:gosec // the AEAD makes the nonce, and wants none
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// maxPlain bounds what a cookie may hold.
const maxPlain = 1 << 20

// open decrypts what was sealed for a purpose.
func (k *Keeper) open(purpose, text string, value any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	for _, seal := range k.seals {
		short, err := seal.Open(nil, nil, sealed, []byte(purpose))
		if err != nil {
			continue // sealed with another key
		}
		plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(short)), maxPlain))
		return err == nil && json.Unmarshal(plain, value) == nil
	}
	return false // sealed with a key that is gone, or by somebody else
}
