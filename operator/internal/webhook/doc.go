// SPDX-License-Identifier: Apache-2.0

// Package webhook validates objects before the API server stores them, for rules that no schema can express: whether a
// CEL expression compiles, whether a cron expression has a date, whether settings stay within the cluster's.
//
// What it decides:
//
//   - It refuses only what the operator, or a hook, would refuse later; each check is the code that would refuse it.
//   - A stored object can always be changed outside of its spec: an old mistake must not keep finalizers or labels from
//     being written.
//   - While the operator is away nothing is refused (failurePolicy Ignore): mistakes are then reported where they were
//     reported before there was a webhook, in conditions and by hooks that fail.
//   - Exceptions are stamped with who made and who changed them, by an annotation that only the operator can make. One that is
//     stored while the operator is away has no stamp that holds.
//   - The authority of the operator's certificate is written into both webhook configurations whenever it changes.
package webhook
