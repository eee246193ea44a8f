// SPDX-License-Identifier: Apache-2.0

// Package sdktest is a small world for tests of hooks: a store and an API server that hold one Scan, and a record of
// everything the hook did to them, in order. Hooks run in it exactly as in a container, from arguments to exit code.
// A [Remote] is a real server for what hooks send to others, with every fault one can have; the [Clock] makes the
// pauses between attempts take no time.
package sdktest
