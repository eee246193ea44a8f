// SPDX-License-Identifier: Apache-2.0

package worker

import "sync"

// gate counts the messages that are worked on. One of them may be alone for a while: no further one begins then.
type gate struct {
	mutex   sync.Mutex
	inside  int
	alone   bool
	changed chan struct{}
}

// enter waits while somebody is alone.
func (g *gate) enter() {
	for {
		g.mutex.Lock()
		if !g.alone {
			g.inside++
			g.mutex.Unlock()
			return
		}
		changed := g.changed
		g.mutex.Unlock()
		<-changed
	}
}

// leave ends one message, and being alone.
func (g *gate) leave() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.inside--
	g.end()
}

// tryAlone tells whether the caller, who has entered, is the only one, and keeps others out until together or leave.
func (g *gate) tryAlone() bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.inside != 1 {
		return false
	}
	g.alone = true
	return true
}

// together lets others in again.
func (g *gate) together() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.end()
}

func (g *gate) end() {
	if g.alone {
		g.alone = false
		close(g.changed)
		g.changed = make(chan struct{})
	}
}
