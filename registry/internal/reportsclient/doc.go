// SPDX-License-Identifier: Apache-2.0

// Package reportsclient asks the reports API: Images, Repositories, databases, and the streamed uploads of workers.
//
//	call ──► try ──► answer, with the server's time
//	          ▲  │ connection broken, 429, 5xx: Retry-After, else 1 s, 2 s, 4 s … 30 s
//	          └──┘ until the patience of the call is used up: an UnavailableError
//
// What it decides:
//
//   - Documents are streamed from files, and opened anew for each try. Nothing that grows with an image is held in memory.
//   - The time of the server comes with each answer: leases are judged by that time, so a worker whose clock is wrong harms nobody.
//   - A refusal is not a failure: 400, 404 and 409 are told at once, with the reason that the server gives to programs.
package reportsclient
