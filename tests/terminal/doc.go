// SPDX-License-Identifier: Apache-2.0

// Package terminal runs programs as a user does who types them: with pipes, as a
// pipeline would, or on a pseudo terminal, with Ctrl-C.
package terminal
