// SPDX-License-Identifier: Apache-2.0

// Package imagetest makes container images in memory: reproducible ones with known packages, and hostile ones. Tests use them, and what
// holds adapters to their protocol.
//
//	Spec: layers of files ─► archives ─► blobs ─► config ─► manifest: equal specs have equal digests
package imagetest
