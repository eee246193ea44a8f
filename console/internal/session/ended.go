// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/sha256"
	"sync"
	"time"
)

// ended are sessions that were ended before their time, until then. It is safe for concurrent use.
type ended struct {
	mu   sync.Mutex
	ends map[[sha256.Size]byte]time.Time
}

func (e *ended) add(s *Session, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ends == nil {
		e.ends = map[[sha256.Size]byte]time.Time{}
	}
	for key, end := range e.ends {
		if !now.Before(end) {
			delete(e.ends, key)
		}
	}
	e.ends[sha256.Sum256([]byte(s.CSRF))] = s.Ends
}

func (e *ended) has(s *Session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.ends[sha256.Sum256([]byte(s.CSRF))]
	return ok
}
