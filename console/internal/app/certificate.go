// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// certificate is a pair of files, read again when they have changed. It is safe for concurrent use.
type certificate struct {
	cert, key string

	mu   sync.Mutex
	read time.Time // when the file that was read was written
	pair *tls.Certificate
}

// current is the certificate for a connection. Files that cannot be read, as while they are being replaced, leave what was read before.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	file, err := os.Stat(c.cert)
	if err == nil && file.ModTime().Equal(c.read) {
		return c.pair, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(c.cert, c.key)
	}
	switch {
	case err == nil:
		c.pair, c.read = &pair, file.ModTime()
	case c.pair == nil:
		return nil, fmt.Errorf("certificate %s with key %s: %w", c.cert, c.key, err)
	}
	return c.pair, nil
}
