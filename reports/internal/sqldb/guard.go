// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"sync"
	"time"
)

// guard watches over one transaction: a statement may take long, but not because the machine of the database is frozen, or the
// network drops what is sent. Neither ends a connection by itself, so that the transaction would wait for its whole time.
type guard struct {
	db     *DB
	ctx    context.Context //nolint:containedctx // of the transaction, which the guard ends
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer // nil once the transaction has ended
}

// guard returns the context for a transaction. It ends with ErrAway as its cause when the database has stopped to answer.
func (db *DB) guard(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if db.pools.probe == nil {
		return ctx, func() { cancel(nil) }
	}
	g := &guard{db: db, ctx: ctx, cancel: cancel}
	g.mu.Lock()
	g.timer = time.AfterFunc(db.config.Probe, g.ask)
	g.mu.Unlock()
	return ctx, g.done
}

func (g *guard) done() {
	g.mu.Lock()
	g.timer.Stop()
	g.timer = nil
	g.mu.Unlock()
	g.cancel(nil)
}

// ask asks the database by a connection of its own, since those of readers may all be in use, and asks again later.
func (g *guard) ask() {
	ctx, cancel := context.WithTimeout(g.ctx, g.db.config.Probe)
	defer cancel()
	var one int
	if err := g.db.pools.probe.QueryRowContext(ctx, `SELECT 1`).Scan(&one); err != nil {
		g.cancel(ErrAway) // of a transaction that has ended, the cause is settled already
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Reset(g.db.config.Probe)
	}
}
