// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// Tokens are the bearer tokens of a file: one TOKEN[,cluster=ID][,tenant=T] in a line. The file is read again every second.
type Tokens struct {
	path string
	log  *slog.Logger

	mutex sync.RWMutex
	known []token
}

// token is known by its hash: no token is kept.
type token struct {
	hash [sha256.Size]byte
	grant
}

// grant is what a sender may send. Empty fields bind nothing.
type grant struct{ cluster, tenant string }

// NewTokens reads the file. Without a file every call is refused until there is one.
func NewTokens(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{path: path, log: log}
	known, err := readTokens(path)
	if err != nil {
		return nil, err
	}
	t.known = known
	return t, nil
}

// Watch reads the file again every second until ctx ends.
func (t *Tokens) Watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var told string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		known, err := readTokens(t.path)
		if err != nil {
			if err.Error() != told {
				t.log.Error("tokens cannot be read: those before stay", "error", err)
			}
			told = err.Error()
			continue
		}
		told = ""
		t.mutex.Lock()
		t.known = known
		t.mutex.Unlock()
	}
}

func readTokens(path string) ([]token, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	var known []token
	lines := bufio.NewScanner(bytes.NewReader(content))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, ",")
		one := token{hash: sha256.Sum256([]byte(parts[0]))}
		for _, part := range parts[1:] {
			key, value, _ := strings.Cut(part, "=")
			switch key {
			case "cluster":
				one.cluster = value
			case "tenant":
				one.tenant = value
			default:
				return nil, fmt.Errorf("tokens: %s line %d: %q is not known: a line is TOKEN[,cluster=ID][,tenant=T]", path, number, key)
			}
		}
		known = append(known, one)
	}
	return known, lines.Err()
}

// find gives what the token allows.
func (t *Tokens) find(text string) (grant, bool) {
	hash := sha256.Sum256([]byte(text))
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	for i := range t.known {
		if subtle.ConstantTimeCompare(t.known[i].hash[:], hash[:]) == 1 {
			return t.known[i].grant, true
		}
	}
	return grant{}, false
}

// Allows tells whether the value of an Authorization header is one of the tokens.
func (t *Tokens) Allows(authorization string) bool {
	text, ok := strings.CutPrefix(authorization, "Bearer ")
	if !ok {
		return false
	}
	_, ok = t.find(text)
	return ok
}
