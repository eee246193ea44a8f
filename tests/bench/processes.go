// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
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
	var profile bytes.Buffer
	if _, err := l.ask(ctx, usage.HeldPath, "text/plain", &profile); err != nil {
		return m, err
	}
	held, err := usage.Held(profile.String())
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
