// SPDX-License-Identifier: Apache-2.0

// Package tokens reads files of bearer tokens: one TOKEN[,…] in a line, comments behind #, read again every second.
// What stands behind the token is the program's to understand.
package tokens

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

// File is a file of tokens, each of which stands for a T.
type File[T any] struct {
	path  string
	parse func(fields []string) (T, error)
	log   *slog.Logger

	mutex sync.RWMutex
	known []token[T]
}

// token is known by its hash: no token is kept.
type token[T any] struct {
	hash  [sha256.Size]byte
	means T
}

// Open reads the file. parse gets what stands behind the token, cut at commas.
func Open[T any](path string, parse func(fields []string) (T, error), log *slog.Logger) (*File[T], error) {
	f := &File[T]{path: path, parse: parse, log: log}
	known, err := f.read()
	if err != nil {
		return nil, err
	}
	f.known = known
	return f, nil
}

// Watch reads the file again every second until ctx ends.
func (f *File[T]) Watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var told string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		known, err := f.read()
		if err != nil {
			if err.Error() != told {
				f.log.Error("tokens cannot be read: those before stay", "error", err)
			}
			told = err.Error()
			continue
		}
		told = ""
		f.mutex.Lock()
		f.known = known
		f.mutex.Unlock()
	}
}

func (f *File[T]) read() ([]token[T], error) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	var known []token[T]
	lines := bufio.NewScanner(bytes.NewReader(content))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, ",")
		means, err := f.parse(fields[1:])
		if err != nil {
			return nil, fmt.Errorf("tokens: %s line %d: %w", f.path, number, err)
		}
		known = append(known, token[T]{hash: sha256.Sum256([]byte(fields[0])), means: means})
	}
	return known, lines.Err()
}

// Find tells what the token stands for.
func (f *File[T]) Find(text string) (T, bool) {
	hash := sha256.Sum256([]byte(text))
	f.mutex.RLock()
	defer f.mutex.RUnlock()
	for i := range f.known {
		if subtle.ConstantTimeCompare(f.known[i].hash[:], hash[:]) == 1 {
			return f.known[i].means, true
		}
	}
	var none T
	return none, false
}

// FindBearer tells what the token of an Authorization header stands for.
func (f *File[T]) FindBearer(authorization string) (T, bool) {
	text, ok := strings.CutPrefix(authorization, "Bearer ")
	if !ok {
		var none T
		return none, false
	}
	return f.Find(text)
}
