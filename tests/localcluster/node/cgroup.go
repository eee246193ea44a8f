// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// limits of one container; zero means none.
type limits struct {
	memory   int64 // bytes
	milliCPU int64
	pids     int64
}

// maxPids keeps a fork bomb from taking the machine along.
const maxPids = 4096

func limitsOf(c *corev1.Container) limits {
	return limits{memory: c.Resources.Limits.Memory().Value(), milliCPU: c.Resources.Limits.Cpu().MilliValue(), pids: maxPids}
}

// setting is one file to write in a cgroup.
type setting struct {
	controller, file, value string
	// optional settings exist only on some machines.
	optional bool
}

// cpuPeriod is the kernel's default, in microseconds.
const cpuPeriod = 100_000

// settingsV1 and settingsV2 decide what is written for limits. They name only
// what has a limit, except that every container counts its processes.
func settingsV1(l limits) []setting {
	s := []setting{{controller: "pids", file: "pids.max", value: strconv.FormatInt(l.pids, 10)}}
	if l.memory > 0 {
		m := strconv.FormatInt(l.memory, 10)
		s = append(s, setting{controller: "memory", file: "memory.limit_in_bytes", value: m},
			setting{controller: "memory", file: "memory.memsw.limit_in_bytes", value: m, optional: true})
	}
	if l.milliCPU > 0 {
		s = append(s, setting{controller: "cpu", file: "cpu.cfs_period_us", value: strconv.Itoa(cpuPeriod)},
			setting{controller: "cpu", file: "cpu.cfs_quota_us", value: strconv.FormatInt(max(l.milliCPU*cpuPeriod/1000, 1000), 10)})
	}
	return s
}

func settingsV2(l limits) []setting {
	s := []setting{{file: "pids.max", value: strconv.FormatInt(l.pids, 10)}}
	if l.memory > 0 {
		s = append(s, setting{file: "memory.max", value: strconv.FormatInt(l.memory, 10)},
			setting{file: "memory.swap.max", value: "0", optional: true},
			// A container whose children are killed one by one would limp on.
			setting{file: "memory.oom.group", value: "1", optional: true})
	}
	if l.milliCPU > 0 {
		s = append(s, setting{file: "cpu.max", value: fmt.Sprintf("%d %d", max(l.milliCPU*cpuPeriod/1000, 1000), cpuPeriod)})
	}
	return s
}

// cgroups makes one cgroup per container below one parent per node. The zero
// value limits nothing.
type cgroups struct {
	parents  map[string]string // directory by controller; "" for version 2
	settings func(limits) []setting
}

// openCgroups finds out which version the machine has and whether it may be
// used. The error says why limits will not be enforced.
func openCgroups(name string) (cgroups, error) { return openCgroupsAt("/sys/fs/cgroup", name) }

// cgroupName is different for every node of this machine.
func cgroupName(nodeDir string) string {
	sum := sha256.Sum256([]byte(nodeDir))
	return "localcluster-" + hex.EncodeToString(sum[:6])
}

func openCgroupsAt(root, name string) (cgroups, error) {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		parent := filepath.Join(root, name)
		for _, dir := range []string{root, parent} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return cgroups{}, err
			}
			if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory +cpu +pids"), 0); err != nil {
				return cgroups{}, err
			}
		}
		return cgroups{parents: map[string]string{"": parent}, settings: settingsV2}, nil
	}
	g := cgroups{parents: map[string]string{}, settings: settingsV1}
	for _, c := range []string{"memory", "cpu", "pids"} {
		dir := filepath.Join(root, c)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			continue
		}
		dir = filepath.Join(dir, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return cgroups{}, err
		}
		g.parents[c] = dir
	}
	if len(g.parents) == 0 {
		return cgroups{}, fmt.Errorf("no cgroup controllers are mounted at %s", root)
	}
	return g, nil
}

// enter makes a container's cgroups and returns the files that its process
// writes itself into.
func (g cgroups) enter(name string, l limits) ([]string, error) {
	if g.parents == nil {
		return nil, nil
	}
	g.leave(name) // an earlier run of the container, with its counters
	var procs []string
	for _, parent := range g.parents {
		dir := filepath.Join(parent, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		procs = append(procs, filepath.Join(dir, "cgroup.procs"))
	}
	for _, s := range g.settings(l) {
		parent, found := g.parents[s.controller]
		if !found {
			continue // this machine does not have the controller
		}
		err := os.WriteFile(filepath.Join(parent, name, s.file), []byte(s.value), 0)
		if err != nil && !s.optional {
			return nil, err
		}
	}
	return procs, nil
}

// outOfMemory tells whether the kernel killed a process of the container for
// its memory.
func (g cgroups) outOfMemory(name string) bool {
	for controller, parent := range g.parents {
		file := "memory.events"
		switch controller {
		case "memory":
			file = "memory.oom_control"
		case "":
		default:
			continue
		}
		b, err := os.ReadFile(filepath.Join(parent, name, file))
		if err == nil && oomKills(b) > 0 {
			return true
		}
	}
	return false
}

// oomKills reads the "oom_kill N" line that both versions have.
func oomKills(b []byte) int {
	s := bufio.NewScanner(bytes.NewReader(b))
	for s.Scan() {
		if rest, ok := strings.CutPrefix(s.Text(), "oom_kill "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(rest))
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// leave removes a container's cgroups. A process that takes its time to end
// keeps one busy; it goes with the next start, or with the node.
func (g cgroups) leave(name string) {
	for _, parent := range g.parents {
		if err := os.Remove(filepath.Join(parent, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
	}
}

// close removes the node's own cgroups and what is left in them.
func (g cgroups) close() {
	for _, parent := range g.parents {
		left, err := os.ReadDir(parent)
		if err != nil {
			continue
		}
		for _, e := range left {
			if e.IsDir() {
				g.leave(e.Name())
			}
		}
		// Busy while a last process ends; an empty cgroup costs nothing.
		_ = os.Remove(parent)
	}
}
