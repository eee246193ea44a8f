// SPDX-License-Identifier: Apache-2.0

// Package migrate moves PolicyReports and Reports from CRDs, whose objects are in etcd, to the reports API server.
//
//	for each group:  check ─► copy ─► freeze ─► switch ─► settle ─► compare ─► clean
//	                           ▲ rounds  │ 18 s           │         │
//	                           └─────────┘                ConfigMap reports-migration: step, counter, hashes of all objects
//
// What it decides:
//
//   - The groups are moved one after the other. An error of the second leaves the first whole.
//   - What to do next is read off the cluster: an APIService that is local means copy again, one that is ours means continue
//     behind the switch. The ConfigMap adds what the cluster does not show any more then: the hashes of the CRD's objects.
//   - Copying goes in rounds: what a metadata list shows to have changed since the last round is sent again, what it no
//     longer shows is removed. A watch would show the same, but it can be too old without any sign.
//   - Objects that the server refuses end the move before the switch, while nothing is lost yet.
//   - While the last round, the raise of the counter and the switch go on, a policy refuses writes. It is removed whatever
//     happens. Should this process be killed, the policy is without effect after 18 s: it has a Job for a parameter that
//     never starts a pod, and that the cluster itself ends and deletes.
//   - The comparison reads the server's state as of the switch, so that what was written since is not a difference.
//   - CRDs are deleted only when the comparison has found no difference.
//
// The way back, --back, goes the other way:
//
//	open a version of the CRDs ─► copy in rounds ─► freeze ─► switch ─► end watches ─► compare ─► remove from the server
//
// What it decides:
//
//   - While the server has the group, etcd is written through another version of the CRDs, which kube-apiserver serves itself.
//   - The server refuses writes while the last round goes on, and ends that by itself: policies of the cluster have no clock.
//   - Reports get new uids, also where the CRD was kept and has them still.
//   - What is in etcd is overwritten or deleted until it is what the server has, so that there is nothing to note before the switch.
package migrate
