// SPDX-License-Identifier: Apache-2.0

// Package follow keeps a live view of objects of one kind: it lists, watches, and
// lists again when the watch or the API server goes away. Waiting for a condition
// is waiting for the next change, not asking again and again.
package follow
