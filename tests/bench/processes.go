// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// usedMemory is what processes have in memory, in MiB.
type usedMemory struct {
	apiServer          float64 // what kube-apiserver holds
	server, serverPeak float64 // what the reports API server has resident
}

func (l *reportLoad) memory(ctx context.Context) (usedMemory, error) {
	var m usedMemory
	// What a Go program has resident swings by several times of what the program holds: garbage is not collected before there is
	// some times as much of it, and goes back to the kernel late.
	var profile bytes.Buffer
	if _, err := l.ask(ctx, "/debug/pprof/heap?gc=1&debug=1", "text/plain", &profile); err != nil {
		return m, err
	}
	held, err := heldOf(profile.String())
	if err != nil {
		return m, err
	}
	m.apiServer = float64(held) / (1 << 20)
	if l.server == nil {
		return m, nil
	}
	server, err := usage.Of(l.server.Process.Pid)
	m.server, m.serverPeak = float64(server.Resident)/(1<<20), float64(server.Peak)/(1<<20)
	return m, err
}

// heldOf reads the bytes of a heap from a profile in the form for people (runtime/pprof, debug=1).
func heldOf(profile string) (int64, error) {
	const key = "# HeapAlloc = "
	for line := range strings.Lines(profile) {
		if value, ok := strings.CutPrefix(line, key); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("the heap profile of kube-apiserver has no line %q", key)
}

// components are the processes of the cluster.
func (l *reportLoad) components(ctx context.Context) (map[string]int, error) {
	all, err := l.cluster.Status(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for i := range all {
		found[all[i].Name] = all[i].PID
	}
	return found, nil
}

// cpu is the CPU time of all processes that have a part in what is measured.
func (l *reportLoad) cpu(ctx context.Context) (time.Duration, error) {
	components, err := l.components(ctx)
	if err != nil {
		return 0, err
	}
	pids := []int{components[localcluster.APIServer], components[localcluster.Etcd]}
	if l.server != nil {
		pids = append(pids, l.server.Process.Pid)
	}
	if l.database != nil {
		children, err := usage.Children(l.database.PID())
		if err != nil {
			return 0, err
		}
		pids = append(append(pids, l.database.PID()), children...)
	}
	var sum time.Duration
	for _, pid := range pids {
		p, err := usage.Of(pid)
		if errors.Is(err, fs.ErrNotExist) && l.database != nil {
			continue // a connection of the database that has ended, which its parent counts
		}
		if err != nil {
			return 0, err
		}
		sum += p.CPU + p.Waited
	}
	return sum, nil
}
