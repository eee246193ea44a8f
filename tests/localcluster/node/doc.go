// SPDX-License-Identifier: Apache-2.0

// Package node is the cluster's node agent: it does for pods what scheduler and
// kubelet do, with local processes in place of a container runtime, and
// reports in a kubelet's own words, since operators read those.
//
//	pod without node ──place──► Binding, or PodScheduled=False/Unschedulable
//	pod on node "local" ──────► podWorker: volumes ─► init containers in order
//	                            ─► containers ─► sidecars end ─► final status
//	pod on a simulated node ──► Running, then Succeeded after a delay
//
// What to do is decided in pure functions (place.go, restart.go, status.go,
// env.go, security.go); what runs and writes is in agent.go, worker.go,
// container.go and volumes.go. Processes die with the agent: a restarted agent
// finds pods whose containers are gone and treats them by their restart policy.
package node
