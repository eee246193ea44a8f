// SPDX-License-Identifier: Apache-2.0

// Package webhook lets the API server ask the operator before it stores an object, for what no schema can say: whether
// a CEL expression compiles, whether a cron expression has a date, whether settings stay within the cluster's.
//
// What it decides:
//
//   - It only refuses what the operator, or a hook, would refuse later on; each check is the code that does so.
//   - An object that is stored already can always be changed outside of its spec: a mistake from before must not keep
//     finalizers or labels from being written.
//   - While the operator is away nothing is refused (failurePolicy Ignore): mistakes are then told where they were told
//     before there was admission, in conditions and by hooks that fail.
//   - The authority of its certificate is written into the ValidatingWebhookConfiguration, whenever that changes.
package webhook
