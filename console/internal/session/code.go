// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"crypto/subtle"
	"sync"
	"time"
)

// codeLifetime is how long a one-time code opens a session.
const codeLifetime = 10 * time.Minute

// Code opens one session, once. It is safe for concurrent use.
type Code struct {
	now func() time.Time

	mu   sync.Mutex
	text string
	ends time.Time
}

// NewCode makes a code.
func NewCode(now func() time.Time) *Code {
	return &Code{now: now, text: rand.Text(), ends: now().Add(codeLifetime)}
}

// Text is the code.
func (c *Code) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text
}

// Redeem says whether a text is the code, which is worth nothing from then on.
func (c *Code) Redeem(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text == "" || !c.now().Before(c.ends) || subtle.ConstantTimeCompare([]byte(c.text), []byte(text)) != 1 {
		return false
	}
	c.text = ""
	return true
}
