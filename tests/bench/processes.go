// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/tests/localcluster"
)

// usedMemory is what processes have in memory, in MiB.
type usedMemory struct{ apiServer, server, serverPeak float64 }

func (l *reportLoad) memory(ctx context.Context) (usedMemory, error) {
	var m usedMemory
	components, err := l.components(ctx)
	if err != nil {
		return m, err
	}
	apiServer, err := processOf(components[localcluster.APIServer])
	if err != nil {
		return m, err
	}
	m.apiServer = float64(apiServer.rss) / (1 << 20)
	if l.server == nil {
		return m, nil
	}
	server, err := processOf(l.server.Process.Pid)
	m.server, m.serverPeak = float64(server.rss)/(1<<20), float64(server.peak)/(1<<20)
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
		children, err := childrenOf(l.database.PID())
		if err != nil {
			return 0, err
		}
		pids = append(append(pids, l.database.PID()), children...)
	}
	var sum time.Duration
	for _, pid := range pids {
		p, err := processOf(pid)
		if errors.Is(err, fs.ErrNotExist) && l.database != nil {
			continue // a connection of the database that has ended, which its parent counts
		}
		if err != nil {
			return 0, err
		}
		sum += p.cpu + p.waited
	}
	return sum, nil
}

// childrenOf are the processes that a process has started.
func childrenOf(parent int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, stat := range stats {
		fields, err := statOf(stat)
		if err != nil || len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue // another one's, or it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err != nil {
			return nil, err
		}
		found = append(found, pid)
	}
	return found, nil
}

// statOf are the fields of /proc/PID/stat behind the program's name: the first one is its state.
func statOf(file string) ([]string, error) {
	stat, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.Fields(after), nil
}

// used is what a process has used: waited is the CPU time of its children that have ended.
type used struct {
	cpu, waited time.Duration
	rss, peak   int64
}

// processOf reads CPU time and memory (proc(5)).
func processOf(pid int) (used, error) {
	var u used
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	fields, err := statOf(filepath.Join(dir, "stat"))
	if err != nil {
		return u, err
	}
	const userTime, waitedSystemTime = 11, 14
	if len(fields) <= waitedSystemTime {
		return u, fmt.Errorf("%s/stat is not as expected", dir)
	}
	for i := userTime; i <= waitedSystemTime; i++ {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return u, err
		}
		of := &u.cpu
		if i > userTime+1 {
			of = &u.waited
		}
		*of += time.Duration(ticks) * time.Second / clockTicks
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "VmRSS":
			u.rss = kib << 10
		case "VmHWM":
			u.peak = kib << 10
		}
	}
	return u, nil
}
