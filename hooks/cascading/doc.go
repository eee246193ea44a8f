// SPDX-License-Identifier: Apache-2.0

// Package cascading is the ReadOnly hook cascading-scans: findings of one Scan start further Scans, by the rules that the
// Scan selects with `spec.cascades`.
//
//	Scan ─┬─ CascadingRules (or ClusterCascadingRules) ─┐
//	      ├─ the rule that started it                   ├─► plan ──► child Scans, created one after another
//	      ├─ aliases of its ParseDefinition             │      └──► per rule: why nothing was started
//	      └─ findings, as a stream ─────────────────────┘
//
// What it decides, and leaves to package plan and those below it where no cluster is needed:
//
//   - A Scan of resourceMode clusterWide sees ClusterCascadingRules and ClusterParseDefinitions only, any other one
//     the kinds of its namespace only.
//   - Children are named by what they come from, so a hook that runs again finds its own and creates what is missing. A
//     name that another client has taken is an error.
//   - A child that cannot be created, and a rule with a mistake, fail the hook, after all others were created. A mistake
//     in the scope fails it before.
//   - A rule of the chain that was deleted meanwhile is noted and nothing more.
//   - Where hooks that write findings ran before, and rules need a category that no finding has any more, the log and the
//     condition [ConditionMatched] of the Scan say so.
//
// [Explain] shows the same without a cluster.
package cascading
