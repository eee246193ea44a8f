// SPDX-License-Identifier: Apache-2.0

// Command newhook begins a new hook: its package with a test that fails until the hook is written, its line in the list of
// hooks, and a chart. docs/add-a-hook.md goes on from there.
//
// Usage: newhook ROOT NAME [ReadOnly|ReadAndWrite]
package main
