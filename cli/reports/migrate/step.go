// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"slices"
)

// owner is who answers for a group.
type owner int

const (
	// ownerNone: there is no APIService.
	ownerNone owner = iota
	// ownerLocal: kube-apiserver itself, by a CRD.
	ownerLocal
	// ownerOurs: the reports API server.
	ownerOurs
	// ownerForeign: another server.
	ownerForeign
)

// source is a CRD that is there.
type source struct {
	resource resource
	// version is read; "" if the CRD serves none that can be.
	version string
	// unserved is true for a CRD without any served version.
	unserved bool
	// objects and bytes are how much it holds; bytes are those of a page, multiplied.
	objects, bytes int64
}

// groupSeen is what was found of a group.
type groupSeen struct {
	group   group
	owner   owner
	foreign string // the Service of another server
	sources []source
	state   state
	// returning is how many reports of the server belong to the group, if that was counted.
	returning int64
	counted   bool
}

// reportsServer is the reports API server, as its own group's APIService names it.
type reportsServer struct {
	namespace, service string
	port               int64
	caBundle           any
	inject             string // the annotation of cert-manager
	// freeBytes is what its database has left, where that is known.
	freeBytes *int64
}

// String is the server's Service.
func (s *reportsServer) String() string { return s.namespace + "/" + s.service }

// step is what is to be done next with a group.
type step int

const (
	// stepNothing: there is nothing to move, or all is moved.
	stepNothing step = iota
	// stepCopy: from the beginning, up to the switch.
	stepCopy
	// stepSettle: behind the switch.
	stepSettle
	stepCompare
	stepClean
	// stepForeign: another server has the group.
	stepForeign
	// stepHidden: the server has the group, and objects of the CRD were never copied.
	stepHidden
	// stepUnreadable: the CRD serves no version that can be read.
	stepUnreadable
)

// rows of what is done next. The first row whose when holds is taken.
var rows = []struct {
	name string
	when func(*groupSeen, bool) bool
	then step
}{
	{"another server has the group", func(g *groupSeen, _ bool) bool { return g.owner == ownerForeign }, stepForeign},
	{"nothing is left", func(g *groupSeen, _ bool) bool { return len(g.sources) == 0 }, stepNothing},
	{"moved, and kept", func(g *groupSeen, keep bool) bool { return g.behindSwitch(phaseDone) && keep }, stepNothing},
	{"moved", func(g *groupSeen, _ bool) bool { return g.behindSwitch(phaseDone, phaseCompared) }, stepClean},
	{"settled", func(g *groupSeen, _ bool) bool { return g.behindSwitch(phaseSettled) }, stepCompare},
	{"switched", func(g *groupSeen, _ bool) bool { return g.behindSwitch(phaseSwitching) }, stepSettle},
	{"taken without a copy", func(g *groupSeen, _ bool) bool { return g.owner == ownerOurs }, stepHidden},
	{"unreadable", (*groupSeen).unreadable, stepUnreadable},
	{"local", func(*groupSeen, bool) bool { return true }, stepCopy},
}

// next decides what is to be done with a group.
func next(g *groupSeen, keepCRDs bool) step {
	for _, row := range rows {
		if row.when(g, keepCRDs) {
			return row.then
		}
	}
	return stepNothing
}

func (g *groupSeen) behindSwitch(phases ...phase) bool {
	return g.owner == ownerOurs && slices.Contains(phases, g.state.Phase)
}

func (g *groupSeen) unreadable(bool) bool {
	return slices.ContainsFunc(g.sources, func(s source) bool { return s.version == "" })
}

// giveBack is a patch that gives a group back to its CRDs.
const giveBack = `{"metadata":{"annotations":{"reports.scanyard.io/managed":"false"},"labels":{"kube-aggregator.kubernetes.io/automanaged":"true"}},` +
	`"spec":{"service":null,"caBundle":null}}`

// refusal is why a group cannot be moved, and what to do; nil if it can.
func refusal(g *groupSeen, what step, program string) error {
	name := g.group.apiService()
	switch what {
	case stepForeign:
		return fmt.Errorf(
			"another server has %s: its APIService %s names the Service %s. Uninstall that server, or move its reports with its own means, and run this again",
			g.group.name, name, g.foreign,
		)
	case stepHidden:
		return fmt.Errorf("the reports API server has %s already, and the CRDs' objects were not copied. Give the group back to the CRDs and run this again: "+
			"kubectl patch apiservice %s --type=merge -p '%s'", g.group.name, name, giveBack)
	case stepUnreadable:
		for _, s := range g.sources {
			if s.version == "" {
				return fmt.Errorf("CRD %s serves none of the versions %v: set served: true for one of them, and run \"%s reports migrate\" again",
					g.group.crd(s.resource), g.group.readable, program)
			}
		}
	case stepNothing, stepCopy, stepSettle, stepCompare, stepClean:
	}
	return nil
}
