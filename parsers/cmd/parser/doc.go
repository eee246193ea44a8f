// SPDX-License-Identifier: Apache-2.0

// Command parser makes findings of raw scanner results: in the pod of a Scan, and on a terminal. See "parser help".
// It decides nothing; package cli does.
package main
