// SPDX-License-Identifier: Apache-2.0

// Package termsafe keeps text that comes from scanned systems from controlling a terminal. A banner of a hostile server
// ends up in a finding, and a finding in the terminal of its reader: escape sequences could hide lines, change the title,
// or type commands.
//
// What it decides:
//
//   - Control characters (C0, DEL, C1) and those that change the direction of writing become U+FFFD, except line breaks and
//     tabs. So do bytes that are not valid UTF-8, since some terminals read them as C1.
//   - A secret mark distinguishes colors and moves of the cursor that the program makes itself from such text.
//   - In JSON such characters become escapes instead, which mean the same to a parser.
package termsafe
