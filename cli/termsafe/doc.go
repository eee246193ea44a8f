// SPDX-License-Identifier: Apache-2.0

// Package termsafe keeps text that comes from scanned systems from meaning anything to a terminal. A banner of a hostile
// server ends up in a finding, and a finding in the terminal of whoever reads it: escape sequences could hide lines,
// change the title, or type commands.
//
// What it decides:
//
//   - Control characters (C0, DEL, C1) and those that turn the direction of writing become U+FFFD, line breaks and tabs
//     aside. Bytes that are no UTF-8 do as well, since some terminals read them as C1.
//   - Colours and moves of the cursor that a program makes itself are distinguished from such text by a mark, which nobody outside
//     of the program knows.
//   - In JSON they become escapes instead, which mean the same to whoever parses it.
package termsafe
