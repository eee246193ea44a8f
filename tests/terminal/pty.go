// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"context"
	"fmt"

	"github.com/creack/pty"
)

// Start starts a call on a pseudo terminal of a size.
func (p Program) Start(ctx context.Context, columns, rows uint16, args ...string) (*Session, error) {
	s := &Session{cmd: p.command(ctx, args), ended: make(chan struct{}), more: make(chan struct{})}
	tty, err := pty.StartWithSize(s.cmd, &pty.Winsize{Cols: columns, Rows: rows})
	if err != nil {
		return nil, fmt.Errorf("start %s on a terminal: %w", p.Path, err)
	}
	s.tty = tty
	go s.read(tty)
	return s, nil
}
