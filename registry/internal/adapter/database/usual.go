// SPDX-License-Identifier: Apache-2.0

package database

import (
	"cmp"
	"sync/atomic"
)

// Usual is the directory of the database that is matched with where a request names none: the one that the process was told when it was
// started, or else the one that it has installed last. Several goroutines may use it at once.
type Usual struct {
	// Told is set before the first request.
	Told string

	latest atomic.Pointer[string]
}

// Installed tells of a database that was installed, or was there already.
func (u *Usual) Installed(dir string) { u.latest.Store(&dir) }

// Or gives the directory that a request names, or the usual one; "": there is none.
func (u *Usual) Or(dir string) string {
	latest := ""
	if last := u.latest.Load(); last != nil {
		latest = *last
	}
	return cmp.Or(dir, u.Told, latest)
}
